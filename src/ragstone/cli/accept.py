"""`ragstone accept`: accept a drop on purpose."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from ragstone.cli.options import CONFIG, PATH, option, setting, settings_from
from ragstone.cli.output import say
from ragstone.errors import ConfigError
from ragstone.printable import shown_name


@click.command(name="accept")
@click.argument("run", type=PATH, required=False)
@option(
    "--metric",
    value="NAME",
    required=True,
    help="The metric that dropped, a guard whose share rose, or 'golden set' for an edit.",
)
@option("--slice", "tag", value="TAG", help="The slice, if the drop is in a slice.")
@option(
    "--reason",
    value="TEXT",
    required=True,
    help="Why the drop is worth it, for the reviewer.",
)
@option(
    "--expires",
    value="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The last day on which the drop is accepted.",
)
@option(
    "--of",
    value="DROP",
    help="The drop as the report's command names it, if you don't have the RUN.",
)
@setting("thresholds")
@CONFIG
def command(
    run: Path | None,
    metric: str,
    tag: str | None,
    reason: str,
    expires: datetime.datetime | None,
    of: str | None,
    thresholds: str | None,
    config: Path | None,
) -> int:
    """Accept the drop of one metric in RUN (by default, the run in ragstone-run), its
    edit of the golden set, or the rise of the share of a guard, such as
    system.misranked.

    Appends an entry to accepted.toml, next to the policy. Commit the file with the
    change, so that it is reviewed like code. The drop is then allowed up to its size,
    for that metric only, until a baseline includes the change: in runs that are compared
    with the same baseline, or with one that descends from it. The report of a failed
    run shows the full command, in case you don't have its directory.

    \b
    Example:
      ragstone accept --metric faithfulness --reason "half the latency is worth it"
    """
    from ragstone.pipeline.accept import MeasuredDrop, accept
    from ragstone.pipeline.gate_request import read_policy

    settings = settings_from({"config": config, "thresholds": thresholds})
    source: MeasuredDrop | Path = run or settings.path(settings.run.out)
    if of is not None:
        if run is not None:
            raise ConfigError(
                "--of and RUN both say which drop to accept.",
                hint="Leave out one of them.",
            )
        source = MeasuredDrop.parse(of)
    accepted = accept(
        read_policy(settings),
        settings.root,
        source,
        metric=metric,
        reason=reason,
        slice_=tag,
        expires=expires.date() if expires is not None else None,
        today=datetime.datetime.now(datetime.UTC).date(),
        custom=settings.metrics,
    )
    entry = accepted.entry
    file = shown_name(str(accepted.file))
    say(f"Accepted {entry.description} ({entry.id}) in {file}.")
    say(
        "Commit the file with the change. Once a baseline includes it, reports say to remove the entry."
    )
    return 0
