"""`ragstone golden`: report on a golden set, or convert it to native JSON Lines."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.cli.golden_file import print_columns, write_golden_set
from ragstone.cli.options import (
    COLUMNS,
    CONFIG,
    FORCE,
    FORMAT,
    columns_from,
    option,
    settings_from,
)
from ragstone.cli.output import show
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.sample import GoldenSet
from ragstone.history.file import read_history
from ragstone.judge.names import split_name
from ragstone.pipeline.gate_request import history_file, read_policy
from ragstone.pipeline.plan import PlannedMetric, plan
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.settings.settings import Settings
from ragstone.tools.generate.golden_report import golden_report


@click.command(name="golden")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@option("--corpus", value="FOLDER", help="The documents, to check references against.")
@option(
    "--history",
    value="FILE",
    help="The history of the main branch, for the record of each question.",
)
@option(
    "--strict",
    is_flag=True,
    help="Exit with 3 if questions are repeated or references are missing.",
)
@option(
    "-o",
    "--output",
    value="FILE",
    help="Write the golden set to this JSON Lines file instead (-: standard output).",
)
@COLUMNS
@FORCE
@CONFIG
@FORMAT
def command(
    files: tuple[str, ...],
    corpus: Path | None,
    strict: bool,
    output: Path | None,
    columns: tuple[str, ...],
    force: bool,
    config: Path | None,
    format_name: str,
    history: Path | None,
) -> int:
    """Report on a golden set: its tags, near-duplicates, lost references, the record of
    each question, and the loss that it can show; or convert it.

    FILE is a name or a glob: JSONL, JSON, YAML, CSV, TSV, Parquet or Excel (.xlsx).
    Without it, the golden set of the config is used. The mapping of columns to fields
    is printed to standard error. With --output, the set is written in the native format
    instead of a report. With --corpus, relevant ids and reference contexts are looked up
    in the documents. With a history, the report names the questions that no version
    ever answered, that every version answers, and whose answers change back and forth.

    \b
    Examples:
      ragstone golden questions.csv --column question=frage -o golden.jsonl
      ragstone golden golden.jsonl --corpus docs --history main-run/history.jsonl
    """
    settings = settings_from({"config": config})
    all_columns = {**settings.golden.columns, **columns_from(columns)}
    golden = read_golden_set(settings.with_value("golden.columns", all_columns), files)
    print_columns(golden)
    if output is not None:
        write_golden_set(golden, output, force=force)
        return 0
    path = history or history_file(settings)
    if history is not None and not path.exists():
        raise ConfigError(
            "there is no such history.",
            where=str(path),
            hint="Name the history.jsonl of a run of the main branch.",
        )
    runs = read_history(path) if path.exists() else None
    report = golden_report(
        golden, _visible_losses(settings, golden), corpus=corpus, history=runs
    )
    show(format_name, report.json, report.text)
    references = report.references
    is_lost = references is not None and (
        references.missing_ids or references.missing_passages
    )
    if strict and (report.repeats or is_lost):
        return GoldenSetError.exit_code
    return 0


def _visible_losses(settings: Settings, golden: GoldenSet) -> tuple[PlannedMetric, ...]:
    """The loss that the samples can show in each metric; nothing if the policy limits no
    drop."""
    policy = read_policy(settings, of_stored=True)
    is_offline = split_name(settings.judge.name)[0] == "offline"
    try:
        # Any drop will do: only what the samples detect is used.
        return plan(policy, drop=1.0, offline=is_offline, size=golden.size()).metrics
    except ConfigError:
        return ()
