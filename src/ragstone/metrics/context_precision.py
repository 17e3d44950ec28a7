"""Context precision: are the useful contexts ranked first?"""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    require,
    require_each_context,
)
from ragstone.metrics.score import NOTHING_RETURNED, NotApplicable, Score, Scored
from ragstone.system.response import Response


def average_precision(useful: Sequence[float]) -> float:
    """Σ_i v_i · (Σ_{j≤i} v_j / i) ÷ Σ v_i over ranks i from 1, in [0, 1]; 0 if no
    context is useful.

    `useful` are verdicts, 0 or 1, or probabilities in [0, 1]: then it is the mean of
    the expected precision at each rank, weighted by the probability that the context at
    that rank is useful.
    """
    hits = 0.0
    total = 0.0
    for rank, value in enumerate(useful, start=1):
        hits += value
        total += value * hits / rank
    if not hits:
        return 0.0
    return min(1.0, total / hits)


class ContextPrecision(BaseMetric):
    """Average precision over ranks, with usefulness judged against the reference:
    graded if the judge grades it."""

    info = MetricInfo(
        name="context_precision",
        version="1",
        blames="retrieval",
        source="RAGAS documentation, context precision; average precision over ranks",
        answerless=True,
        family="context_precision",
    )
    reads = frozenset({JudgementKind.CONTEXT_USE})
    answerable_only = True
    _with_reference = True
    _mismatch = "the sample has no reference"

    def excuse(self, sample: Sample) -> NotApplicable | None:
        excuse = super().excuse(sample)
        if excuse is not None:
            return excuse
        if bool(sample.reference) is self._with_reference:
            return None
        return NotApplicable(self._mismatch)

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.contexts:
            return NOTHING_RETURNED
        use = require(judgements.context_use, "context judgements")
        judged = use.contexts if use.against_reference is self._with_reference else ()
        require_each_context(
            judged, response, "the context verdicts do not match the contexts"
        )
        probabilities = [
            context.probability for context in judged if context.probability is not None
        ]
        if len(probabilities) == len(judged):
            return Scored(average_precision(probabilities))
        return Scored(average_precision([context.useful for context in judged]))


class ContextPrecisionNoReference(ContextPrecision):
    """Average precision over ranks, with usefulness judged against the answer, for
    samples without a reference.

    A separate metric, so that the two are never mixed in one mean.
    """

    info = MetricInfo(
        name="context_precision_no_reference",
        version="1",
        title="Context precision (no reference)",
        blames="retrieval",
        source=ContextPrecision.info.source,
        family="context_precision",
    )
    _with_reference = False
    _mismatch = "the sample has a reference"
