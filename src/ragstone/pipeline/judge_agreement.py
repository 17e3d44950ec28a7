"""How far the chosen judge agrees with people, before it is trusted to block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragstone.formatting import counted, score
from ragstone.gate.calibration import Calibration
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.reliability import grade

_MEASURE_YOURS = "measure yours: ragstone label, then ragstone calibrate"
_MEASURES = {
    "auroc": "AUROC",
    "pairwise_accuracy": "pairs",
    "pearson": "correlation",
    "share_right": "share",
}
PUBLISHED_LLM = (
    "LLM judges that work alike prefer what people prefer in 0.95 of the pairs of WikiEval for faithfulness, in 0.78 "
    "for answer relevancy (RAGAS paper)"
)
"""Es et al. 2023, RAGAS, table 1."""


def agreement_with_people(
    judge: JudgeIdentity, calibration: Calibration | None, metrics: Sequence[str]
) -> str:
    """One sentence: the agreement on the team's own labels, if there are any for
    `judge`, else published figures."""
    if calibration is not None and calibration.judge == judge:
        own = ", ".join(_measured(calibration, metrics))
        if own:
            return f"by your labels (Krippendorff's alpha): {own}"
    return published_agreement(judge.provider, metrics)


def published_agreement(provider: str, metrics: Iterable[str]) -> str:
    """The figures on published labelled sets, in words."""
    if not provider_of(provider).offline:
        return f"not measured for this model. {PUBLISHED_LLM}; {_MEASURE_YOURS}"
    figures = ", ".join(_published(metrics)) or "not measured"
    return f"on published labelled sets, the worst of each: {figures}; {_MEASURE_YOURS}"


def _measured(calibration: Calibration, metrics: Sequence[str]) -> Iterator[str]:
    for name in metrics:
        measured = calibration.metrics.get(name)
        if measured is not None:
            labels = counted(len(measured.pairs), "label")
            yield f"{name} {score(measured.agreement.estimate)} on {labels}"


def _published(metrics: Iterable[str]) -> Iterator[str]:
    """``faithfulness 0.79 AUROC``: on the data set on which the offline judge does
    worst."""
    for name in metrics:
        judge_grade = grade(name)
        if judge_grade is not None:
            worst = judge_grade.evidence[0]
            measure = _MEASURES.get(worst.measure, worst.measure)
            yield f"{name} {worst.value:.2f} {measure}"
