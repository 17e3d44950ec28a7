"""Context precision: are the useful contexts ranked first?"""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    fail,
    require,
    require_each_context,
)
from ragstone.metrics.score import NOTHING_RETURNED, NotApplicable, Score, Scored
from ragstone.system.response import Response


def average_precision(useful: Sequence[float]) -> float:
    """Σ_i v_i · (Σ_{j≤i} v_j / i) ÷ Σ v_i over ranks i from 1, in [0, 1]; 0 if no
    context is useful.

    The values v of `useful` are verdicts, 0 or 1, or probabilities. With probabilities,
    it is the mean of the expected precision at each rank, weighted by the probability
    that the context at that rank is useful.
    """
    useful_count = 0.0
    total = 0.0
    for rank, value in enumerate(useful, start=1):
        useful_count += value
        total += value * useful_count / rank
    if not useful_count:
        return 0.0
    return min(1.0, total / useful_count)


class ContextPrecision(BaseMetric):
    """Average precision over ranks, by how useful each context is, judged against the
    reference: its probability if the judge gives one, else 0 or 1."""

    info = MetricInfo(
        name="context_precision",
        version="1",
        blames="retrieval",
        source="RAGAS documentation, context precision; average precision over ranks",
        needs_no_answer=True,
        family="context_precision",
    )
    reads = frozenset({JudgementKind.CONTEXT_USE})
    is_for_answerable_only = True
    _is_against_reference = True
    _wrong_sample = "the sample has no reference"
    _wrong_judgements = "the contexts were not judged against the reference"

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        not_applicable = super().why_not_applicable(sample)
        if not_applicable is not None:
            return not_applicable
        has_reference = bool(sample.reference)
        if has_reference == self._is_against_reference:
            return None
        return NotApplicable(self._wrong_sample)

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.contexts:
            return NOTHING_RETURNED
        use = require(judgements.context_use, "context judgements")
        if use.against_reference != self._is_against_reference:
            fail(self._wrong_judgements)
        mismatch = "the context verdicts do not match the contexts"
        require_each_context(use.contexts, response, mismatch)
        probabilities = [
            context.probability
            for context in use.contexts
            if context.probability is not None
        ]
        if len(probabilities) == len(use.contexts):
            return Scored(average_precision(probabilities))
        return Scored(average_precision([context.useful for context in use.contexts]))


class ContextPrecisionNoReference(ContextPrecision):
    """Average precision over ranks, by how useful each context is, judged against the
    answer, for samples without a reference.

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
    _is_against_reference = False
    _wrong_sample = "the sample has a reference"
    _wrong_judgements = "the contexts were not judged against the answer"
