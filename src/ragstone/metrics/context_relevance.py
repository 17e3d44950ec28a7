"""Context relevance: is the retrieved text relevant?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    fail,
    graded,
    require,
    require_each_context,
)
from ragstone.metrics.score import NOTHING_RETURNED, Score, Scored
from ragstone.system.response import Response


class ContextRelevance(BaseMetric):
    """Sentences needed to answer the question ÷ all sentences of the contexts (RAGAS,
    section 3).

    A grading judge, such as the offline judge, gives the share that it expects from the
    probability of each sentence; the note counts those that are more likely needed than
    not.
    """

    info = MetricInfo(
        name="context_relevance",
        version="2",
        blames="retrieval",
        source="Es et al. 2023, RAGAS, section 3, CR = extracted sentences / all sentences",
        answerless=True,
    )

    reads = frozenset({JudgementKind.CONTEXT_RELEVANCE})
    answerable_only = True

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
            fail("more relevant sentences than sentences were counted")
        if not total:
            return Scored(0.0, note="the contexts contain no sentences")
        return graded(grades.probability, relevant, total, "sentences relevant")
