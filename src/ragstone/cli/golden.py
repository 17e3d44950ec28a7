"""`ragstone golden`: what is in a golden set, and what in it needs a look."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from ragstone.cli.options import CONFIG, FORMAT, option, setting, settings_from
from ragstone.cli.output import show
from ragstone.errors import ConfigError
from ragstone.history.file import read_history
from ragstone.pipeline.gate_request import history_file
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.report.templates import render_text_template
from ragstone.tools.generate.golden.contents import examine
from ragstone.tools.generate.golden.corpus import check_references, read_corpus
from ragstone.tools.generate.golden.records import ADVICE, records_of

MIN_SAMPLES = 100
"""With fewer samples, a golden set detects only large drops."""

MAX_SHOWN = 5
"""Number of findings of each kind that are shown as text."""


@click.command(name="golden")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@option("--corpus", value="FOLDER", help="The documents, to check references and questions against.")
@setting("history", help="The history of the main branch, for the record of each question")
@option("--strict", is_flag=True, help="Exit with 3 if there are duplicates, contradictions or missing references.")
@CONFIG
@FORMAT
def command(
    files: tuple[str, ...], corpus: Path | None, strict: bool, config: Path | None, form: str, history: str | None
) -> int:
    """Show what is in a golden set: contents, duplicates, leaks, flaky and saturated questions.

    FILE is a name or a glob, in any format that Ragstone reads; without it, the golden set of the config. Duplicates
    have the same question; near-duplicates nearly the same wording. Contradictions are found by the offline judge: look
    at them. With --corpus, relevant ids and reference contexts are looked up in the documents, and questions that quote
    them are named. With a history, so are questions that flip while nothing changes, never fail, or never can be right.

    \b
    Example:
      ragstone golden golden.jsonl --corpus docs --history main-run/history.jsonl
    """
    settings = settings_from({"config": config, "history": history})
    golden = read_golden_set(settings, files)
    contents = asyncio.run(examine(golden.samples))
    checked = None if corpus is None else check_references(golden.samples, read_corpus(corpus))
    path = history_file(settings)
    if history is not None and not path.exists():
        raise ConfigError("there is no history.", where=str(path), hint="Name one with --history.")
    records = records_of(read_history(path), golden) if path.exists() else None

    def document() -> dict[str, object]:
        return {
            **contents.json(),
            "corpus": None if checked is None else asdict(checked),
            "history": None if records is None else records.json(),
        }

    def text() -> str:
        return render_text_template(
            "golden.txt.j2",
            __package__,
            contents=contents,
            corpus=checked,
            records=records,
            classes=ADVICE,
            fewest=MIN_SAMPLES,
            shown=MAX_SHOWN,
        )

    show(form, document, text)
    missing = 0 if checked is None else len(checked.missing_ids) + len(checked.missing_passages)
    return 3 if strict and (contents.duplicates or contents.contradictions or missing) else 0
