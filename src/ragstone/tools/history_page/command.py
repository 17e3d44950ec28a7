"""`ragstone history`: past runs of the main branch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from ragstone.app.history import add_runs, damage
from ragstone.commands.context import redactor
from ragstone.commands.options import CONFIG, OUTPUT, PATH, option, output_format, setting, settings_from
from ragstone.errors import ConfigError, RunDirectoryError, disk_errors, suggestion
from ragstone.files import open_regular
from ragstone.formatting import counted
from ragstone.history.codes import sample_code
from ragstone.history.drift import find_cause
from ragstone.history.file import History, read_history, write_history
from ragstone.project.gate import history_file, read_policy
from ragstone.project.plan import read_golden_set
from ragstone.report.escape import terminal
from ragstone.report.terminal import look_of
from ragstone.run.files import replace_text, writing_to
from ragstone.tools.history_page.page import GENERATOR, SampleName, history_page, render_history
from ragstone.tools.history_page.production import read_monitor_report
from ragstone.tools.history_page.table import blame_json, blame_text, csv_text, list_lines

_FILE = option(
    "--history",
    value="FILE",
    type=str,
    help="The history  [default: [run] history in ragstone.toml, else history.jsonl in the run directory]",
)


@click.group(name="history", invoke_without_command=True)
@CONFIG
@_FILE
@output_format("text", "csv", "jsonl")
@option("--last", value="N", type=click.IntRange(min=1), help="Show only the newest N runs.")
@OUTPUT
@click.pass_context
def command(ctx: click.Context, /, form: str, last: int | None, output: Path | None, **flags: object) -> int:
    """List past runs, newest last, with marks where the judge or the golden set changed.

    \b
    Examples:
      ragstone history
      ragstone history --format csv -o history.csv
      ragstone history add ragstone-run --release v1.4.0
      ragstone history report -o history
    """
    ctx.obj = flags
    if ctx.invoked_subcommand is not None:
        return 0
    path = _existing(flags) if flags.get("history") else _path(flags)
    history = _read(path)
    if last is not None:
        history = replace(history, runs=history.runs[-last:])
    if form == "text":
        width = look_of(sys.stdout)[0] if output is None else None
        text = "".join(f"{terminal(line)}\n" for line in list_lines(history.runs, width))
        if not os.path.lexists(path):
            text += f"There is no {terminal(str(path))} yet. {_NAME_ONE}\n"
    else:
        text = csv_text(history.runs) if form == "csv" else history.text()
    if output is None:
        click.echo(text, nl=False)
    else:
        replace_text(output, text)
    return 0


@command.command(name="add", short_help="Add finished runs, in any order.")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@option(
    "--release", value="NAME", help='Mark the runs as this release, a starting point for `[drift] anchor = "release"`.'
)
@setting("thresholds", help="Policy file, for its slices")
@_FILE
@click.pass_obj
def add(
    parent: dict[str, object],
    runs: tuple[Path, ...],
    release: str | None,
    thresholds: str | None,
    history: str | None,
) -> int:
    """Add finished runs to the history, in any order. A run that was added before is replaced.

    Runs without a verdict, as of `ragstone run`, `rescore` and `monitor`, are shown, and are no part of the level.
    """
    flags = _flags(parent, history, thresholds)
    path = _path(flags)
    past = _read(path)
    had = {line.run for line in past.runs}
    past, added = add_runs(past, runs, read_policy(settings_from(flags)), release=release)
    write_history(path, past)
    for line in added:
        did = "Replaced" if line.run in had else "Added"
        had.add(line.run)
        verdict = "no verdict" if line.verdict == "none" else line.verdict
        click.echo(terminal(f"{did} the run of {line.time:%Y-%m-%d %H:%M} ({verdict})."))
    click.echo(terminal(f"{path} now has {counted(len(past.runs), 'run')}."))
    return 0


@command.command(name="blame", short_help="Name the merge with which a metric fell below its level.")
@click.argument("metric")
@output_format("text", "json")
@setting("thresholds", help="Policy file, for the direction of the metric")
@_FILE
@click.pass_obj
def blame(parent: dict[str, object], metric: str, form: str, thresholds: str | None, history: str | None) -> int:
    """Name the merge with which METRIC fell below the level of the main branch, as far as the history can tell.

    No system is asked. The merges named did it with a probability of at least 90 %.

    \b
    Examples:
      ragstone history blame faithfulness
      ragstone history blame faithfulness --format json
    """
    flags = _flags(parent, history, thresholds)
    path = _existing(flags)
    past = read_history(path)
    known = {name for run in past.runs for name in run.metrics}
    if metric not in known:
        raise ConfigError(f"no run has the metric '{metric}'.", where=str(path), hint=suggestion(metric, known))
    policy = read_policy(settings_from(flags), known)
    found = find_cause(past, metric, lower_is_better=policy.lower_is_better(metric))
    click.echo(blame_json(*found) if form == "json" else terminal(blame_text(*found)))
    return 0


@command.command(name="report", short_help="Write a page of trends, and of versions side by side.")
@option(
    "-o",
    "--output",
    value="DIR",
    default=Path("history"),
    help="Folder for the page; its other files stay as they are.",
)
@setting("thresholds", help="Policy file, for the thresholds in the charts")
@setting("golden", help="Golden set, to name samples")
@option("--no-questions", is_flag=True, help="Show samples by their hash, without ids and questions.")
@option("--monitor", value="FILE", help="Report of `ragstone monitor --format json`, to show its windows.")
@option(
    "--repository",
    value="URL",
    help="Repository on GitHub, for links to commits, pull requests and jobs  [default: that of the job]",
)
@option("--title", default="RAG quality history", help="Title of the page.")
@_FILE
@click.pass_obj
def report(
    parent: dict[str, object],
    output: Path,
    thresholds: str | None,
    golden: tuple[str, ...],
    no_questions: bool,
    monitor: Path | None,
    repository: str | None,
    title: str,
    history: str | None,
) -> int:
    """Write the history as a page: DIR/index.html, self-contained, to open from the disk or to publish.

    \b
    Examples:
      ragstone history report -o history
      ragstone history report -o public --history main-run/history.jsonl --no-questions
    """
    flags = _flags(parent, history, thresholds) | {"golden": golden}
    settings, past = settings_from(flags), read_history(_existing(flags))
    redact = redactor(settings)
    path = output / "index.html"
    _refuse_foreign(path)
    samples = () if no_questions or not settings.golden.paths else read_golden_set(settings)
    page = history_page(
        past,
        read_policy(settings, {name for run in past.runs for name in run.metrics}),
        names={sample_code(one.id, one.content_hash()): SampleName(one.id, one.question) for one in samples},
        production=None if monitor is None else read_monitor_report(monitor),
        repository=repository or _repository(os.environ),
        redact=redact,
    )
    notes = (*damage(past), *page.notes)
    text = render_history(page, notes=[redact(said) for said in notes], title=redact(title))
    with writing_to(path):
        output.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    for said in notes:
        click.echo(terminal(said), err=True)
    click.echo(terminal(f"Wrote {path} ({counted(len(past.runs), 'run')}, {len(text) / 1e6:.1f} MB)."))
    return 0


def _refuse_foreign(path: Path) -> None:
    """Raise RunDirectoryError if `path` exists and was not written by this command."""
    if not os.path.lexists(path):
        return
    elsewhere = "Move it away, or use another folder with -o."
    with disk_errors(path, kind=RunDirectoryError, hint=elsewhere), open_regular(path) as stream:
        ours = GENERATOR.encode() in stream.read(16 * 1024)
    if not ours:
        raise RunDirectoryError("is not a page of `ragstone history report`.", where=str(path), hint=elsewhere)


def _flags(parent: dict[str, object], history: str | None, thresholds: str | None) -> dict[str, object]:
    return {**parent, "history": history or parent.get("history"), "thresholds": thresholds}


def _repository(environ: Mapping[str, str]) -> str | None:
    server, name = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None


_NAME_ONE = "Name one with --history, or add runs: ragstone history add RUN"


def _read(path: Path) -> History:
    history = read_history(path)
    for said in damage(history):
        click.echo(f"warning: {terminal(said)}", err=True)
    return history


def _existing(flags: dict[str, object]) -> Path:
    """The history. Raises ConfigError if there is none."""
    path = _path(flags)
    if not os.path.lexists(path):
        raise ConfigError("there is no history.", where=str(path), hint=_NAME_ONE)
    return path


def _path(flags: dict[str, object]) -> Path:
    return history_file(settings_from(flags))
