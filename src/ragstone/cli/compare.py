"""`ragstone compare`: decide on two runs or score files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ragstone.cli.options import PATH, POLICY, REPORT, option, with_options
from ragstone.cli.output import show_report

if TYPE_CHECKING:
    from ragstone.gate.policy import Policy


@click.command(name="compare")
@click.argument("runs", type=PATH, metavar="[BASELINE] RUN", nargs=-1, required=True)
@option(
    "--golden",
    value="FILE",
    type=str,
    multiple=True,
    help="Golden set whose samples the score files are about, can be repeated.",
)
@POLICY
@with_options(REPORT)
def command(
    runs: tuple[Path, ...],
    golden: tuple[str, ...],
    thresholds: Path | None,
    format_name: str,
    output: Path | None,
    verbose: bool,
) -> int:
    """Compare RUN with a policy and with BASELINE, and decide. Without BASELINE, RUN is
    only compared with the floors of the policy.

    Each is a run directory, or a score file from any evaluator: JSON Lines, or a table,
    with id, metric, value (in [0, 1]) and, if samples belong together, group; or with
    one sample per row and a column for each metric, as ragas writes it. Its rows are
    matched with the golden set, if one is given, by id, question or place.

    Exits with 0 pass · 1 fail · 2 usage or a bad file · 5 coverage too low · 6 baseline
    missing or not comparable · 8 inconclusive, if the policy says that blocks.

    \b
    Examples:
      ragstone compare scores.csv --thresholds thresholds.toml
      ragstone compare baseline.csv current.csv
      ragstone compare main-run small-chunks --format html -o chunks.html
    """
    from ragstone.golden.load import load_golden_set
    from ragstone.pipeline.compare import compare
    from ragstone.report.render import Format

    if len(runs) > 2:
        raise click.UsageError("Expected at most one BASELINE and one RUN.")
    format_name = cast(Format, format_name)
    compared = compare(
        runs[0] if len(runs) == 2 else None,
        runs[-1],
        read_policy(thresholds),
        golden=load_golden_set(golden) if golden else None,
    )
    show_report(
        compared.document,
        format_name,
        output,
        verbose=verbose,
        packed_samples=compared.page(),
    )
    return compared.verdict.exit_code


def read_policy(thresholds: Path | None) -> Policy:
    """The policy in `thresholds`, else in thresholds.toml in the current directory,
    else the default one.

    It may name any metric, because the scores may come from another evaluator.
    """
    from ragstone.gate.policy import default_policy, load_policy
    from ragstone.gate.policy_table import POLICY_FILE

    file = thresholds or Path(POLICY_FILE)
    if thresholds is None and not file.is_file():
        return default_policy(Path())
    return load_policy(file, known_metrics=None)
