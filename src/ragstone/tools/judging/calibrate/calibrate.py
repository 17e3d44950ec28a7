"""How a judge compares with human labels, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragstone.formatting import counted, percent, score
from ragstone.gate.calibration import Calibration, Estimate, MetricCalibration
from ragstone.run.scores import RunScores

FEW_LABELS = 30


def calibration_lines(
    calibration: Calibration, run: RunScores, required: float | None, file: Path | None
) -> Iterator[str]:
    """The calibration as lines of text, with the agreement that a policy requires, and where it was written to."""
    judge = calibration.judge
    yield f"{judge.label() if judge else 'The scores'} compared with people, on {run.label}:"
    for name, metric in calibration.metrics.items():
        yield ""
        yield from _metric_lines(name, metric)
        if required is not None:
            reached = metric.agreement.estimate is not None and metric.agreement.estimate >= required
            yield f"  the policy requires an agreement of {required:g}: {'reached' if reached else 'not reached'}"
    if file is not None:
        yield ""
        yield f'Written to {file}. The gate uses it with [labels] file = "{file.name}".'


def _metric_lines(name: str, metric: MetricCalibration) -> Iterator[str]:
    n = len(metric.pairs)
    left = f", {metric.left_out} labelled samples have no score" if metric.left_out else ""
    yield f"{name}: {n} labelled samples{left}"
    yield f"  agreement of judge and people   {_shown(metric.agreement)}"
    yield f"  as pass or fail                 {_shown(metric.kappa)}; equal on {percent(metric.equal)}"
    if metric.people is not None:
        yield f"  agreement among {len(metric.annotators)} people        {_shown(metric.people)}"
    if metric.people_kappa is not None:
        yield f"  of the two as pass or fail      {_shown(metric.people_kappa)}"
    yield (
        f"  judge minus people              {_shown(metric.bias, sign=True)}; "
        f"passes {metric.too_high} that people fail, fails {metric.too_low} that people pass"
    )
    yield f"  mean by the judge               {score(metric.judge_mean, 3)}"
    worth = f"; one label is worth {metric.gain:.1f}" if metric.gain > 1.0 else ""
    yield f"  mean that people would give     {_shown(metric.corrected)}{worth}"
    if n < FEW_LABELS:
        yield f"  {counted(n, 'label')}: intervals become useful with {FEW_LABELS} or more"
    for one in metric.errors[:5]:
        yield f"    {one.sample_id}: judge {score(one.judge)}, people {score(one.people)}"


def _shown(found: Estimate, *, sign: bool = False) -> str:
    if found.estimate is None or found.low is None or found.high is None:
        return f"not defined ({found.method})"
    form = "+.3f" if sign else ".3f"
    return f"{found.estimate:{form}} [{found.low:{form}}, {found.high:{form}}] ({found.method})"
