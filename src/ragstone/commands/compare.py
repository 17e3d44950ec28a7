"""`ragstone compare`: only the decision."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.commands.options import POLICY


@click.command(name="compare")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("current", type=click.Path(path_type=Path))
@POLICY
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="Report format.",
)
@click.option("--baseline-any", is_flag=True, help="Compare with BASELINE even if its run failed.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
def command(baseline: Path, current: Path, thresholds: Path | None, form: str, baseline_any: bool, seed: int) -> int:
    """Compare CURRENT with a policy and with BASELINE, and decide.

    Each is a run directory, or a plain score file from any evaluator: JSON Lines, or CSV with a header, with id,
    metric, value (in [0, 1]) and, if samples belong together, group.

    Exits with 0 pass · 1 fail · 2 usage or a bad file · 5 coverage too low · 6 baseline missing or not comparable ·
    8 inconclusive, if the policy says that blocks.

    \b
    Example:
      ragstone compare baseline.csv current.csv --thresholds thresholds.toml
    """
    from ragstone.report.render import render
    from ragstone.report.terminal import print_report
    from ragstone.usecases.compare import compare, read_compare_policy

    found = compare(baseline, current, read_compare_policy(thresholds), seed=seed, baseline_any=baseline_any)
    if form == "md" or form == "json":
        click.echo(render(found.view, "md" if form == "md" else "json"))
    else:
        print_report(found.view)
    return found.verdict.exit_code
