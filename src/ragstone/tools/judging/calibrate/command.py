"""`ragstone calibrate`: how well the judge agrees with people."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.app.compare import read_compare_policy, read_side
from ragstone.commands.options import FORMAT, PATH, POLICY, SEED, option
from ragstone.config import Settings
from ragstone.report.escape import terminal
from ragstone.report.templates import render_text_template
from ragstone.run.files import replace_text
from ragstone.tools.judging.calibrate.labels import read_labels
from ragstone.tools.judging.calibrate.measure import calibrate


@click.command(name="calibrate")
@click.argument("labels", type=PATH)
@option(
    "--run", type=PATH, default=Path(Settings().run.out), help="The run whose answers were labelled, or a score file."
)
@option("--metric", value="NAME", help="The labelled metric, if the lines don't name it.")
@option("--scale", value="WORST BEST", type=(float, float), default=(0.0, 1.0), help="Scale of numeric labels.")
@option("--out", value="FILE", help="Write the calibration for the gate.")
@POLICY
@SEED
@FORMAT
def command(
    labels: Path,
    run: Path,
    metric: str | None,
    scale: tuple[float, float],
    out: Path | None,
    thresholds: Path | None,
    seed: int,
    form: str,
) -> int:
    """Compare the judge of a run with human LABELS.

    LABELS is JSON Lines, or CSV with a header, with id, label, metric and, if there were several people, annotator.
    A label is a number from 0 to 1 (or on --scale), or pass or fail. Label samples drawn at random, or give the
    probability of each: `ragstone label` draws them and makes pages for labelling.

    Reports how well judge and people agree, where the judge errs, and an estimate of the mean that people would have
    given to all samples.

    \b
    Example:
      ragstone calibrate labels.csv --run ragstone-run --metric faithfulness --out calibration.json
    """
    scores = read_side(run).scores
    found = calibrate(scores, read_labels(labels, metric=metric, scale=scale), seed=seed)
    if out is not None:
        replace_text(out, found.model_dump_json(indent=1) + "\n")
    if form == "json":
        click.echo(found.model_dump_json(indent=2))
    else:
        required = read_compare_policy(thresholds, calibration=False).labels.min_agreement
        values = {"calibration": found, "label": scores.label, "required": required, "file": out}
        click.echo(terminal(render_text_template("calibration.txt.j2", "ragstone.tools.judging.calibrate", **values)))
    return 0
