"""How far the chosen judge agrees with people, before it is trusted to block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstone.formatting import counted, score
from ragstone.gate.calibration import Calibration
from ragstone.judge.names import provider_of
from ragstone.judge.offline.reliability import Evidence, grade
from ragstone.judge.protocol import JudgeIdentity

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
    own = _own_labels(judge, calibration, metrics)
    if own:
        return own
    labels_of = "the labels are of another judge; " if calibration is not None else ""
    return labels_of + published_agreement(judge.provider, metrics)


def published_agreement(provider: str, metrics: Iterable[str]) -> str:
    """The figures on published labelled sets, in words."""
    if not provider_of(provider).offline:
        return f"not measured for this model. {PUBLISHED_LLM}; {_MEASURE_YOURS}"
    published = [_published(metric) for metric in metrics]
    figures = ", ".join(figure for figure in published if figure)
    return f"on published labelled sets, worst and best: {figures or 'not measured'}; {_MEASURE_YOURS}"


def _own_labels(
    judge: JudgeIdentity, calibration: Calibration | None, metrics: Sequence[str]
) -> str:
    if calibration is None or calibration.judge != judge:
        return ""
    figures = []
    for name in metrics:
        measured = calibration.metrics.get(name)
        if measured is None:
            continue
        alpha = measured.agreement
        interval = (
            ""
            if alpha.low is None or alpha.high is None
            else f" ({score(alpha.low)} to {score(alpha.high)})"
        )
        figures.append(
            f"{name} {score(alpha.estimate)}{interval} on {counted(len(measured.pairs), 'label')}"
        )
    return (
        f"by your labels (Krippendorff's alpha): {', '.join(figures)}"
        if figures
        else ""
    )


def _published(metric: str) -> str:
    """``faithfulness 0.79 to 0.94 AUROC``: the data set on which the offline judge does
    worst, and the best one."""
    judge_grade = grade(metric)
    if judge_grade is None:
        return ""
    worst = judge_grade.evidence[0]
    alike: list[Evidence] = [
        row for row in judge_grade.evidence if row.measure == worst.measure
    ]
    best = max(row.value for row in alike)
    values = (
        f"{worst.value:.2f}"
        if best == worst.value
        else f"{worst.value:.2f} to {best:.2f}"
    )
    return f"{metric} {values} {_MEASURES.get(worst.measure, worst.measure)}"
