"""`ragstone plan`: how many samples are needed."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.commands.options import POLICY
from ragstone.commands.output import say


@click.command(name="plan")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN", help="A second run to pair RUN with.")
@click.option("--drop", type=float, default=0.03, show_default=True, help="The true drop to detect.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Share of runs in which to detect it.")
@POLICY
@click.option("--sd", type=float, help="Standard deviation of one score, without a RUN  [default: 0.25]")
@click.option(
    "--changed", type=float, default=0.4, show_default=True, help="Share of answers that change between runs."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def command(
    run: Path | None,
    baseline: Path | None,
    drop: float,
    power: float,
    thresholds: Path | None,
    sd: float | None,
    changed: float,
    form: str,
) -> int:
    """Calculate how many golden samples are needed to detect a drop.

    RUN is a run directory or a score file, to use its variances or, with --baseline, the paired differences of the two
    runs. Without RUN, typical variances are assumed. Only the excess over the allowed drop (max_drop) counts.

    \b
    Examples:
      ragstone plan --drop 0.05
      ragstone plan ragstone-run --baseline last-week --drop 0.03 --power 0.9
    """
    from ragstone.errors import ConfigError
    from ragstone.usecases.compare import read_compare_policy, read_side
    from ragstone.usecases.plan import plan, plan_lines

    if baseline is not None and run is None:
        raise ConfigError("--baseline needs a RUN to pair with.", hint="ragstone plan RUN --baseline OTHER_RUN")
    found = plan(
        read_compare_policy(thresholds),
        drop=drop,
        power=power,
        run=None if run is None else read_side(run).scores,
        baseline=None if baseline is None else read_side(baseline).scores,
        sd=sd,
        changed=changed,
    )
    if form == "json":
        from dataclasses import asdict
        from json import dumps

        click.echo(dumps({**asdict(found), "needed": found.needed}, indent=2))
    else:
        for line in plan_lines(found):
            say(line)
    return 0
