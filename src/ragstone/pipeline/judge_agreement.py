"""Says how far the chosen judge agrees with people, before it is trusted to block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstone.formatting import counted, score
from ragstone.gate.calibration import Calibration
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.reliability import grade

_HOW_TO_MEASURE = "measure yours: ragstone label, then ragstone calibrate"
_MEASURE_NAMES = {
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
    """The agreement of `judge` on the team's own labels in words; without such labels,
    the published figures."""
    agreements = []
    if calibration is not None and calibration.judge == judge:
        measured = calibration.metrics
        for name in [metric for metric in metrics if metric in measured]:
            labels = counted(len(measured[name].pairs), "label")
            alpha = score(measured[name].agreement.estimate)
            agreements.append(f"{name} {alpha} on {labels}")
    if agreements:
        return f"by your labels (Krippendorff's alpha): {', '.join(agreements)}"
    return published_agreement(judge.provider, metrics)


def published_agreement(provider: str, metrics: Iterable[str]) -> str:
    """Published figures on the agreement of a judge, in words. For the offline judge,
    they are from the labelled set on which it does worst in each metric."""
    if not provider_of(provider).offline:
        return f"not measured for this model. {PUBLISHED_LLM}; {_HOW_TO_MEASURE}"
    figures = []
    for name in metrics:
        judge_grade = grade(name)
        if judge_grade is not None:
            worst = judge_grade.evidence[0]
            measure = _MEASURE_NAMES.get(worst.measure, worst.measure)
            figures.append(f"{name} {worst.value:.2f} {measure}")
    all_figures = ", ".join(figures) or "not measured"
    return f"on published labelled sets, the worst of each: {all_figures}; {_HOW_TO_MEASURE}"
