"""Context relevance: is the retrieved text relevant?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, context_id
from ragstone.metrics.metric import MetricInfo, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class ContextRelevance:
    """Sentences needed to answer the question ÷ all sentences of the contexts (RAGAS, section 3).

    A grading judge, such as the offline judge, gives its probability that the contexts answer the question instead; the
    share is the note.
    """

    info = MetricInfo(
        name="context_relevance",
        version="2",
        title="Context relevance",
        blames="retrieval",
        source="Es et al. 2023, RAGAS, section 3, CR = extracted sentences / all sentences",
        answerless=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        return frozenset({JudgementKind.CONTEXT_RELEVANCE}) if sample.answerable else frozenset()

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
        found = judgements.context_relevance
        if found is None or isinstance(found, JudgementFailure):
            return missing(found, "sentence counts")
        wanted = [context_id(rank) for rank in range(len(response.contexts))]
        if [context.context_id for context in found.contexts] != wanted:
            return Failed("judge", "the sentence counts do not match the contexts one to one")
        relevant = sum(context.relevant for context in found.contexts)
        total = sum(context.total for context in found.contexts)
        if not 0 <= relevant <= total:
            return Failed("judge", "more relevant sentences than sentences were counted")
        if not total:
            return Scored(0.0, note="the contexts hold no sentences")
        return graded(found.probability, relevant, total, "sentences relevant")
