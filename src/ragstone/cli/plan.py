"""`ragstone plan`: how many samples a golden set needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from ragstone.cli.options import CONFIG, FORMAT, PATH, POLICY, option, settings_from
from ragstone.cli.output import show
from ragstone.errors import ConfigError, GoldenSetError

if TYPE_CHECKING:
    from ragstone.golden.sample import GoldenSize
    from ragstone.settings.settings import Settings


@click.command(name="plan")
@click.argument("run", type=PATH, required=False)
@option(
    "--drop",
    type=float,
    default=0.1,
    help="The drop to detect.",
)
@CONFIG
@POLICY
@FORMAT
def command(
    run: Path | None,
    drop: float,
    config: Path | None,
    thresholds: Path | None,
    format_name: str,
) -> int:
    """Calculate how many golden samples are needed to detect a drop.

    The test for drops is simulated on questions like those of RUN, a run directory or a
    score file. Without RUN, typical scores are assumed, for the golden set and the judge
    of the config file.

    \b
    Examples:
      ragstone plan
      ragstone plan ragstone-run --drop 0.03
    """
    from ragstone.judge.names import split_name
    from ragstone.pipeline.compare import read_side
    from ragstone.pipeline.gate_request import read_policy
    from ragstone.pipeline.plan import plan
    from ragstone.report.templates import render_text_template
    from ragstone.stats.sensitivity import POWER

    flags = {
        "config": config,
        "thresholds": None if thresholds is None else str(thresholds),
    }
    settings = settings_from(flags)
    policy = read_policy(settings, of_stored=True)
    sample_plan = plan(
        policy,
        drop=drop,
        run=None if run is None else read_side(run).scores,
        offline=split_name(settings.judge.name)[0] == "offline",
        size=_golden_size(settings) if run is None else None,
    )

    def document() -> dict[str, object]:
        return {**to_builtins(sample_plan), "needed": sample_plan.needed}

    def text() -> str:
        return render_text_template(
            "plan.txt.j2", __package__, plan=sample_plan, power=POWER
        )

    show(format_name, document, text)
    return 0


def _golden_size(settings: Settings) -> GoldenSize | None:
    """The size of the golden set that `settings` name; None if it can't be read."""
    from ragstone.pipeline.run_plan import read_golden_set

    try:
        return read_golden_set(settings).size()
    except (ConfigError, GoldenSetError):
        return None
