"""How far the chosen judge agrees with people, before it is trusted to block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstone.formatting import counted, score
from ragstone.gate.calibration import Calibration
from ragstone.judge.names import provider_of
from ragstone.judge.offline.reliability import grade
from ragstone.judge.protocol import JudgeIdentity

_MEASURE_YOURS = "measure yours: ragstone label, then ragstone calibrate"
_MEASURES = {
    "auroc": "AUROC",
    "pairwise_accuracy": "pairs",
    "pearson": "correlation",
    "share_right": "share",
}


def agreement_with_people(
    judge: JudgeIdentity, calibration: Calibration | None, metrics: Sequence[str]
) -> str:
    """One sentence: the agreement on the team's own labels, if there are any for
    `judge`, else published figures."""
    if calibration is not None and calibration.judge == judge:
        own = ", ".join(_measured(calibration, metrics))
        if own:
            return f"by your labels (Krippendorff's alpha): {own}"
    published = ", ".join(_published(metrics))
    if not provider_of(judge.provider).offline or not published:
        return f"not measured for this judge; {_MEASURE_YOURS}"
    return (
        f"on published labelled sets, the worst of each: {published}; {_MEASURE_YOURS}"
    )


def _measured(calibration: Calibration, metrics: Sequence[str]) -> Iterator[str]:
    for name in metrics:
        measured = calibration.metrics.get(name)
        if measured is not None:
            labels = counted(len(measured.pairs), "label")
            yield f"{name} {score(measured.agreement.estimate)} on {labels}"


def _published(metrics: Sequence[str]) -> Iterator[str]:
    """``faithfulness 0.79 AUROC``: on the data set on which the offline judge does
    worst."""
    for name in metrics:
        judge_grade = grade(name)
        if judge_grade is not None:
            worst = judge_grade.evidence[0]
            measure = _MEASURES.get(worst.measure, worst.measure)
            yield f"{name} {worst.value:.2f} {measure}"
