"""Compare a run's judge with human labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragstone.app.compare import read_side
from ragstone.formatting import counted, percent, score
from ragstone.gate.calibration import Calibration, Estimate, MetricCalibration
from ragstone.gate.policy import Policy
from ragstone.run.scores import RunScores
from ragstone.tools.judging.calibrate.labels import read_labels
from ragstone.tools.judging.calibrate.measure import calibrate, write_calibration

FEW_LABELS = 30


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The calibration, its run, and the file it was written to."""

    calibration: Calibration
    run: RunScores
    file: Path | None


def calibrate_run(
    labels: Path,
    run: Path,
    *,
    metric: str | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    out: Path | None = None,
    seed: int = 0,
) -> Calibrated:
    """Compare the scores of `run` (a run directory or a score file) with `labels`; write the result to `out`.

    Raises ConfigError if labels or run can't be read, or have no samples in common.
    """
    scores = read_side(run).scores
    found = calibrate(scores, read_labels(labels, metric=metric, scale=scale), seed=seed)
    if out is not None:
        write_calibration(out, found)
    return Calibrated(found, scores, out)


def calibration_lines(calibrated: Calibrated, policy: Policy) -> Iterator[str]:
    """The calibration as lines of text, with the policy's requirements."""
    judge = calibrated.calibration.judge
    yield f"{judge.label() if judge else 'The scores'} compared with people, on {calibrated.run.label}:"
    for name, metric in calibrated.calibration.metrics.items():
        yield ""
        yield from _metric_lines(name, metric)
        required = policy.labels.min_agreement
        if required is not None:
            reached = metric.agreement.estimate is not None and metric.agreement.estimate >= required
            yield f"  the policy requires an agreement of {required:g}: {'reached' if reached else 'not reached'}"
    if calibrated.file is not None:
        yield ""
        yield f'Written to {calibrated.file}. The gate uses it with [labels] file = "{calibrated.file.name}".'


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
