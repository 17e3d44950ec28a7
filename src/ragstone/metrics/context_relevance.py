"""Context relevance: how much of the retrieved text is relevant to the question?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    fail,
    grade_or_share,
    require,
    require_each_context,
)
from ragstone.metrics.score import NOTHING_RETURNED, Score, Scored
from ragstone.system.response import Response


class ContextRelevance(BaseMetric):
    """Sentences needed to answer the question ÷ all sentences of the contexts (RAGAS,
    section 3).

    A judge that grades, such as the offline judge, gives the expected share, from the
    probability that each sentence is needed; the note counts the sentences that are
    more likely needed than not.
    """

    info = MetricInfo(
        name="context_relevance",
        version="2",
        blames="retrieval",
        source="Es et al. 2023, RAGAS, section 3, CR = extracted sentences / all sentences",
        needs_no_answer=True,
    )

    reads = frozenset({JudgementKind.CONTEXT_RELEVANCE})
    is_for_answerable_only = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.contexts:
            return NOTHING_RETURNED
        grades = require(judgements.context_relevance, "sentence counts")
        require_each_context(
            grades.contexts, response, "the sentence counts do not match the contexts"
        )
        relevant = sum(context.relevant for context in grades.contexts)
        total = sum(context.total for context in grades.contexts)
        if not 0 <= relevant <= total:
            fail(f"counted {relevant} relevant sentences of {total}")
        if not total:
            return Scored(0.0, note="the contexts contain no sentences")
        return grade_or_share(
            grades.probability, count=relevant, total=total, what="sentences relevant"
        )
