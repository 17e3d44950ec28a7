"""`ragstone golden`: the health and growth of a golden set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ragstone.app.compare import read_compare_policy, read_side
from ragstone.commands.options import CONFIG, FORCE, FORMAT, JSON_LINES, POLICY, SEED, option, setting, settings_from
from ragstone.commands.output import say, show
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.formatting import counted, some
from ragstone.gate.policy import Policy
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.history.file import read_history
from ragstone.judge.names import split_name
from ragstone.project.gate import history_file
from ragstone.project.plan import read_golden_set
from ragstone.tools.generate.convert import COLUMNS, columns_of, explain, write_samples
from ragstone.tools.generate.golden.changes import changes
from ragstone.tools.generate.golden.corpus import check_references, read_corpus
from ragstone.tools.generate.golden.exports import Tool, import_files
from ragstone.tools.generate.golden.health import health_of
from ragstone.tools.generate.golden.stats import report_on
from ragstone.tools.generate.golden.subsets import sample_file, split_files
from ragstone.tools.judging.labels import read_labels

_FILES = click.argument("files", nargs=-1, metavar="[FILE...]")


@click.group(name="golden")
def command() -> None:
    """Look after a golden set: examine, divide, sample, compare, import.

    FILE is a name or a glob, in any format that Ragstone reads; without it, the golden set of the config.
    """


@command.command(short_help="Show contents, resolution and problems.")
@_FILES
@option("--corpus", value="FOLDER", help="The documents, to check references against.")
@option("--run", value="RUN", help="A run, for the variances of its scores.")
@option("--strict", is_flag=True, help="Exit with 3 if there are duplicates, contradictions or missing references.")
@POLICY
@CONFIG
@FORMAT
def stats(
    files: tuple[str, ...],
    corpus: Path | None,
    run: Path | None,
    strict: bool,
    thresholds: Path | None,
    config: Path | None,
    form: str,
) -> int:
    """Show what a golden set consists of, what it can detect, and what needs a look.

    Duplicates have the same question; near-duplicates nearly the same wording. Contradictions are found by the offline
    judge: look at them. With --corpus, relevant ids and reference contexts are looked up in the documents.

    \b
    Example:
      ragstone golden stats golden.jsonl --corpus docs
    """
    settings, policy = _policy(thresholds, config)
    found = report_on(
        _golden(files, config),
        policy,
        corpus=None if corpus is None else read_corpus(corpus),
        run=None if run is None else read_side(run).scores,
        offline=split_name(settings.judge.name)[0] == "offline",
    )
    show(form, found.json, found.text)
    return 3 if strict and found.problems else 0


@command.command(short_help="Show the record of each question.")
@_FILES
@setting("history")
@option("--labels", "labelled", value="FILE", help="Labels by people, as `ragstone label merge` writes them.")
@option("--corpus", value="FOLDER", help="The documents, to look for the evidence in.")
@POLICY
@CONFIG
@FORMAT
def health(
    files: tuple[str, ...],
    history: str | None,
    labelled: Path | None,
    corpus: Path | None,
    thresholds: Path | None,
    config: Path | None,
    form: str,
) -> int:
    """Show which questions are disputed, unwinnable, flaky or dead wood, by the history of the main branch.

    A score that moves by 0.25 or more has flipped. A question is flaky if it flips, up and down, in three pairs of
    consecutive runs and a fifth of those in which the system is the same version, or 9 of 10 other questions stay.

    \b
    Example:
      ragstone golden health --history main-run/history.jsonl --corpus docs
    """
    settings, policy = _policy(thresholds, config, history)
    path = history_file(settings)
    if not path.exists():
        raise ConfigError("there is no history.", where=str(path), hint="Name one with --history.")
    golden = read_golden_set(settings, files)
    gone = None if corpus is None else check_references(golden.samples, read_corpus(corpus))
    found = health_of(
        read_history(path),
        golden,
        policy,
        labels=None if labelled is None else read_labels(labelled),
        missing=() if gone is None else {one.sample_id for one in (*gone.missing_ids, *gone.missing_passages)},
        offline=split_name(settings.judge.name)[0] == "offline",
    )
    show(form, found.json, found.text)
    return 0


@command.command(short_help="Divide into parts, such as dev and test.")
@_FILES
@option("--into", "parts", value="NAME=SHARE", multiple=True, required=True, help="A part and its share; at least two.")
@option("-o", "--output", value="FOLDER", required=True, help="Folder for the parts.")
@option("--afresh", is_flag=True, help="Divide all samples anew, also those that the parts already have.")
@SEED
@CONFIG
def split(
    files: tuple[str, ...], parts: tuple[str, ...], output: Path, afresh: bool, seed: int, config: Path | None
) -> int:
    """Divide a golden set into parts, such as one for tuning and one for the gate.

    Groups stay together, and tags and unanswerable samples have about the same share in each part. If the parts exist
    already, their samples stay where they are, and only new samples are divided.

    \b
    Example:
      ragstone golden split golden.jsonl --into dev=0.2 --into test=0.8 -o golden
    """
    shares = dict(_part(part) for part in parts)
    if len(shares) < max(2, len(parts)):
        raise ConfigError("name at least two parts, each once.", hint="--into dev=0.2 --into test=0.8")
    found = split_files(_golden(files, config), shares, output, seed=seed, afresh=afresh)
    for file, samples, new in found.values():
        say(f"{file}: {counted(len(samples), 'sample')}, {new:,} of them new")
    return 0


def _policy(thresholds: Path | None, config: Path | None, history: str | None = None) -> tuple[Settings, Policy]:
    named = None if thresholds is None else str(thresholds)
    settings = settings_from({"config": config, "thresholds": named, "history": history})
    named = settings.gate.thresholds
    return settings, read_compare_policy(None if named is None else settings.path(named), calibration=False)


def named_share(text: str) -> tuple[str, float]:
    """Name and share of ``NAME=SHARE``; -1 for what is not a number."""
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        return name, -1.0


def _part(text: str) -> tuple[str, float]:
    name, value = named_share(text)
    if value < 0.0 or not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"--into {text}: expected NAME=SHARE.", hint="For example: --into dev=0.2")
    return name, value


@command.command(short_help="Draw a small set for pull requests.")
@_FILES
@option("--n", "size", value="N", type=click.IntRange(min=1), required=True, help="Number of samples.")
@JSON_LINES
@FORCE
@SEED
@POLICY
@CONFIG
def sample(
    files: tuple[str, ...],
    size: int,
    output: Path,
    force: bool,
    seed: int,
    thresholds: Path | None,
    config: Path | None,
) -> int:
    """Draw a small set for a fast check of every pull request; run the full set at night.

    Every tag is in it at least once, and otherwise in proportion; so are unanswerable samples. Must-pass samples of the
    policy are always in it. A set that grows keeps most of its sample.

    \b
    Example:
      ragstone golden sample golden.jsonl --n 50 -o smoke.jsonl
    """
    _, policy = _policy(thresholds, config)
    golden = _golden(files, config)
    chosen, missing = sample_file(golden, size, output, policy, seed=seed, force=force)
    say(f"wrote {len(chosen):,} of {counted(len(golden), 'sample')} to {output}")
    if missing:
        say(f"warning: no room for the tags {some(list(missing))}; rules for them fail the gate.", err=True)
    return 0


@command.command(short_help="Show the changes between two golden sets.")
@click.argument("before", metavar="OLD")
@click.argument("after", metavar="NEW")
@COLUMNS
@CONFIG
@FORMAT
def diff(before: str, after: str, columns: tuple[str, ...], config: Path | None, form: str) -> int:
    """Show what changed from the golden set OLD to NEW: by id, else by content, else by the wording of the question."""
    mapped = columns_of(columns, config)
    old, new = (load_golden_set(name, columns=mapped) for name in (before, after))
    found = changes(old.samples, new.samples)
    show(form, found.json, lambda: found.text(before, after))
    return 0


@command.command(name="import", short_help="Import an export of another tool.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(
    "--from",
    "tool",
    choices=["huggingface", "langfuse", "langsmith", "phoenix", "opik"],
    required=True,
    help="Where the files were exported.",
)
@JSON_LINES
@FORCE
@option("--dataset", value="NAME", help="Name of the data set  [default: as in the files]")
@option("--version", value="VERSION", help="Version of the data set  [default: as in the files]")
@option("--partial", is_flag=True, help="Accept files with only a part of the data set.")
@option("--draft", "drafts", is_flag=True, help="Import as drafts, which count in no check before a review.")
@COLUMNS
@CONFIG
def import_(
    files: tuple[str, ...],
    tool: str,
    output: Path,
    force: bool,
    columns: tuple[str, ...],
    config: Path | None,
    **terms: Any,
) -> int:
    """Import a data set exported from another tool, as a file to keep in the repository.

    FILE is an export, or the pages of the tool's API saved as JSON; nothing is fetched. Each sample keeps its id, and
    says which version of which data set it is from.

    \b
    Example:
      ragstone golden import page-1.json page-2.json --from langfuse -o golden.jsonl
    """
    golden, export = import_files(files, Tool(tool), root=Path(), columns=columns_of(columns, config), **terms)
    explain(golden.mappings[0], len(golden))
    write_samples(golden, output, force=force)
    left = f", {counted(export.archived, 'archived item')} left out" if export.archived else ""
    stated = f"version {export.version}" if export.version else "the files state no version: pin one with --version"
    say(f"wrote {counted(len(golden), 'sample')} to {output}{left}; {stated}", err=True)
    return 0


def _golden(files: tuple[str, ...], config: Path | None) -> GoldenSet:
    return read_golden_set(settings_from({"config": config}), files)
