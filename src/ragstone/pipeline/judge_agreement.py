"""How far the chosen judge agrees with people, before it is trusted to block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    own = []
    if calibration is not None and calibration.judge == judge:
        measured = calibration.metrics
        for name in filter(measured.__contains__, metrics):
            labels = counted(len(measured[name].pairs), "label")
            agreement = score(measured[name].agreement.estimate)
            own.append(f"{name} {agreement} on {labels}")
    if own:
        return f"by your labels (Krippendorff's alpha): {', '.join(own)}"
    return published_agreement(judge.provider, metrics)


def published_agreement(provider: str, metrics: Iterable[str]) -> str:
    """The figures on published labelled sets, in words: of each metric, on the set on
    which the offline judge does worst."""
    if not provider_of(provider).offline:
        return f"not measured for this model. {PUBLISHED_LLM}; {_MEASURE_YOURS}"
    figures = []
    for name in metrics:
        judge_grade = grade(name)
        if judge_grade is not None:
            worst = judge_grade.evidence[0]
            measure = _MEASURES.get(worst.measure, worst.measure)
            figures.append(f"{name} {worst.value:.2f} {measure}")
    listed = ", ".join(figures) or "not measured"
    return f"on published labelled sets, the worst of each: {listed}; {_MEASURE_YOURS}"
