"""`ragstone history`: past runs of the main branch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import Struct
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
from ragstone.report.escape import escape_terminal
from ragstone.settings.settings import Settings
from ragstone.tools.history_page.history_table import csv_text, list_lines, loss_lines
from ragstone.tools.history_page.page import history_page, render_history
from ragstone.tools.history_page.versions import find_version

_HOW_TO_START = (
    "Name another file with --history, or start one: ragstone history add RUN"
)
_FILE = option(
    "--history",
    value="FILE",
    help="The history  [default: [run] history in ragstone.toml, else history.jsonl in the run directory]",
)


class _GroupOptions(Struct, frozen=True):
    """The options before the name of a subcommand that count for it too."""

    config: Path | None
    history: Path | None


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
    help="Versions that the page compares with the first of them, separated by commas: releases, versions of the "
    "system, commits or runs.",
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
    ctx.obj = _GroupOptions(config, history)
    if ctx.invoked_subcommand is not None:
        _refuse_options_of_list(ctx)
        return 0
    if as_csv and as_page:
        raise click.UsageError("--csv and --page can't be combined: use one of them.")
    if versions and not as_page:
        raise click.UsageError("--versions needs --page.")
    settings = settings_from({"config": config})
    path = history or history_file(settings)
    if history is not None and not os.path.lexists(path):
        raise ConfigError(
            "there is no such history.", where=str(path), hint=_HOW_TO_START
        )
    past = _read(path)
    newest_runs = past.runs
    if last is not None:
        newest_runs = past.runs[-last:]
    if as_csv:
        text = csv_text(newest_runs)
    elif as_page:
        text = _page(settings, past, versions, last=last)
    else:
        policy = read_policy(settings, of_stored=True)
        lines = [*list_lines(newest_runs), *loss_lines(past, policy)]
        text = "".join(f"{escape_terminal(line)}\n" for line in lines)
        if not os.path.lexists(path):
            text += (
                f"{escape_terminal(str(path))} does not exist yet. {_HOW_TO_START}\n"
            )
    print_text(text, output)
    return 0


def _refuse_options_of_list(ctx: click.Context) -> None:
    """Raise UsageError if an option that shapes the list comes before a subcommand."""
    for parameter in ctx.command.params:
        is_shared = parameter.name in _GroupOptions.__struct_fields__
        if ctx.params[str(parameter.name)] and not is_shared:
            raise click.UsageError(
                f"{parameter.opts[-1]} does not go with `ragstone history {ctx.invoked_subcommand}`: leave it out."
            )


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
    group_options: _GroupOptions,
    runs: tuple[Path, ...],
    release: str | None,
    history: Path | None,
) -> int:
    """Add finished runs to the history, in any order. A run that was added before is
    replaced.

    Runs without a verdict, such as those of `ragstone run`, `rescore` and `monitor`,
    are listed, but do not count for the level.
    """
    settings = settings_from({"config": group_options.config})
    path = history or group_options.history or history_file(settings)
    past = _read(path)
    run_ids = {line.run for line in past.runs}
    past, added = add_runs(
        RunHistory(past, release=release), runs, read_policy(settings)
    )
    write_history(path, past)
    for line in added:
        action = "Replaced" if line.run in run_ids else "Added"
        run_ids.add(line.run)
        verdict = "no verdict" if line.verdict == "none" else line.verdict
        click.echo(
            escape_terminal(
                f"{action} the run of {line.time:%Y-%m-%d %H:%M} ({verdict})."
            )
        )
    click.echo(
        escape_terminal(
            f"{shown_name(str(path))} now has {counted(len(past.runs), 'run')}."
        )
    )
    return 0


def _page(
    settings: Settings, history: History, versions: str | None, *, last: int | None
) -> str:
    """The page of the newest `last` runs (None: of all), without any known secret.

    Losses and `versions` are looked up in the whole history.
    """
    redact = redactor(settings)
    runs = tuple(
        RunLine.model_validate(redact.tree(run.model_dump())) for run in history.runs
    )
    history = replace(history, runs=runs)
    newest = history
    if last is not None:
        newest = replace(history, runs=runs[-last:])
    names = map(str.strip, (versions or "").split(","))
    policy = read_policy(settings, of_stored=True)
    page = history_page(
        newest,
        policy,
        versions=[find_version(history, name) for name in names if name],
        repository=_repository(os.environ),
        notes=(*damage(history), *loss_lines(history, policy)),
    )
    return render_history(redact.tree(page))


def _read(path: Path) -> History:
    """The history in `path`; warn if lines of it are damaged."""
    history = read_history(path)
    for sentence in damage(history):
        click.echo(f"warning: {escape_terminal(sentence)}", err=True)
    return history


def _repository(environ: Mapping[str, str]) -> str | None:
    """The address of the repository in a job on GitHub; None elsewhere."""
    server, name = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None
