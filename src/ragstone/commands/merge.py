"""`ragstone merge`."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.commands.options import CONFIG, PATH, option, setting, settings_from, with_options
from ragstone.commands.output import run_line, say
from ragstone.formatting import counted


@click.command(name="merge")
@click.argument("shards", nargs=-1, required=True, type=PATH, metavar="SHARD...")
@with_options((CONFIG,))
@setting("out")
@option(
    "--allow-missing",
    is_flag=True,
    help="Count the samples of missing, unfinished and damaged shards as failed. Needs the golden set.",
)
@setting("golden")
@setting("limit")
def command(shards: tuple[Path, ...], allow_missing: bool, **flags: object) -> int:
    """Merge the shards of a run into one run, the same as one machine would have written.

    SHARD is a run directory made with --shard, or a folder that contains some. All must have evaluated the same golden
    set with the same policy, judge, prompts and commit, and none may be missing or damaged. Makes no decision: use
    `ragstone gate --merge` for that, or `ragstone compare` on the directory afterwards.

    \b
    Examples:
      ragstone run --shard 1/2 --out shards/1    (and 2/2, on another machine)
      ragstone merge shards/1 shards/2 --out ragstone-run
    """
    from ragstone.app.merge import Shards, merge
    from ragstone.commands.context import run_context
    from ragstone.project.invocation import system_commit
    from ragstone.project.plan import project_metrics, read_golden_set, started_by

    settings = settings_from(flags)
    with run_context(settings) as context:
        merged = merge(
            Shards(shards, allow_missing),
            settings.path(settings.run.out),
            project_metrics(settings, system_commit(settings.root, context.environ)),
            context,
            invocation=started_by(settings, context, "run"),
            golden=read_golden_set(settings) if allow_missing else None,
        )
    for line in merged.lost:
        say(f"warning: {line}", err=True)
    say(f"{counted(merged.shards, 'shard')} merged: {run_line(merged.run)}")
    return 0
