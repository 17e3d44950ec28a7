"""`ragstone history`: past runs of the main branch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from ragstone.cli.context import redactor
from ragstone.cli.options import CONFIG, OUTPUT, PATH, option, settings_from
from ragstone.cli.output import print_text
from ragstone.errors import ConfigError
from ragstone.formatting import counted
from ragstone.history.file import History, read_history, write_history
from ragstone.history.lines import RunLine
from ragstone.pipeline.gate_request import history_file, read_policy
from ragstone.pipeline.history import RunHistory, add_runs, damage
from ragstone.printable import shown_name
from ragstone.report.escape import terminal
from ragstone.settings.settings import Settings
from ragstone.tools.history_page.page import history_page, render_history
from ragstone.tools.history_page.table import csv_text, list_lines, loss_lines
from ragstone.tools.history_page.versions import find_version

_NAME_ONE = "Name one with --history, or add runs: ragstone history add RUN"
_FILE = option(
    "--history",
    value="FILE",
    help="The history  [default: [run] history in ragstone.toml, else history.jsonl in the run directory]",
)


@click.group(name="history", invoke_without_command=True)
@CONFIG
@_FILE
@option("--csv", "as_csv", is_flag=True, help="Write a table with one row per run.")
@option(
    "--page",
    "as_page",
    is_flag=True,
    help="Write a page that compares versions and shows trends.",
)
@option(
    "--last", value="N", type=click.IntRange(min=1), help="Show only the newest N runs."
)
@option(
    "--versions",
    value="VERSIONS",
    help="Compare A,B with the first of them, in the page: releases, versions of the system, commits or runs.",
)
@OUTPUT
@click.pass_context
def command(
    ctx: click.Context,
    /,
    as_csv: bool,
    as_page: bool,
    last: int | None,
    versions: str | None,
    output: Path | None,
    history: Path | None,
    config: Path | None,
) -> int:
    """List past runs, and where a metric fell below its level; or write them as a page
    that compares versions.

    \b
    Examples:
      ragstone history
      ragstone history --csv -o history.csv
      ragstone history --page -o history.html --versions v1.3.0,v1.4.0
      ragstone history add ragstone-run --release v1.4.0
    """
    ctx.obj = (config, history)
    if ctx.invoked_subcommand is not None:
        return 0
    if as_csv and as_page:
        raise click.UsageError("--csv and --page are two outputs: name one of them.")
    if versions and not as_page:
        raise click.UsageError("--versions needs --page.")
    settings = settings_from({"config": config})
    path = history or history_file(settings)
    if history is not None and not os.path.lexists(path):
        raise ConfigError("there is no history.", where=str(path), hint=_NAME_ONE)
    past = _read(path)
    shown = past
    if last is not None:
        shown = replace(past, runs=past.runs[-last:])
    if as_csv:
        text = csv_text(shown.runs)
    elif as_page:
        text = _page(settings, shown, versions)
    else:
        policy = read_policy(settings, of_stored=True)
        lines = [*list_lines(shown.runs), *loss_lines(past, policy)]
        text = "".join(f"{terminal(line)}\n" for line in lines)
        if not os.path.lexists(path):
            text += f"There is no {terminal(str(path))} yet. {_NAME_ONE}\n"
    print_text(text, output)
    return 0


@command.command(name="add", short_help="Add finished runs, in any order.")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@option(
    "--release",
    value="NAME",
    help="Mark the runs as this release, by which the page can compare them.",
)
@_FILE
@click.pass_obj
def add(
    parent: tuple[Path | None, Path | None],
    runs: tuple[Path, ...],
    release: str | None,
    history: Path | None,
) -> int:
    """Add finished runs to the history, in any order. A run that was added before is
    replaced.

    Runs without a verdict, as of `ragstone run`, `rescore` and `monitor`, are shown,
    and are no part of the level.
    """
    config, named = parent
    settings = settings_from({"config": config})
    path = history or named or history_file(settings)
    past = _read(path)
    had = {line.run for line in past.runs}
    past, added = add_runs(
        RunHistory(past, release=release), runs, read_policy(settings)
    )
    write_history(path, past)
    for line in added:
        did = "Added"
        if line.run in had:
            did = "Replaced"
        had.add(line.run)
        verdict = "no verdict" if line.verdict == "none" else line.verdict
        click.echo(
            terminal(f"{did} the run of {line.time:%Y-%m-%d %H:%M} ({verdict}).")
        )
    click.echo(
        terminal(f"{shown_name(str(path))} now has {counted(len(past.runs), 'run')}.")
    )
    return 0


def _page(settings: Settings, history: History, versions: str | None) -> str:
    """The history as a page, without the secrets that are known here."""
    redact = redactor(settings)
    runs = tuple(
        RunLine.model_validate(redact.tree(run.model_dump())) for run in history.runs
    )
    history = replace(history, runs=runs)
    names = map(str.strip, (versions or "").split(","))
    chosen = list(filter(None, names))
    policy = read_policy(settings, of_stored=True)
    page = history_page(
        history,
        policy,
        versions=[find_version(history, name) for name in chosen],
        repository=_repository(os.environ),
        notes=(*damage(history), *loss_lines(history, policy)),
    )
    return render_history(redact.tree(page))


def _read(path: Path) -> History:
    history = read_history(path)
    for sentence in damage(history):
        click.echo(f"warning: {terminal(sentence)}", err=True)
    return history


def _repository(environ: Mapping[str, str]) -> str | None:
    server, name = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None
