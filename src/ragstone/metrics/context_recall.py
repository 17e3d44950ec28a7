"""Context recall: how much of the reference the retrieved contexts support."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, Verdict
from ragstone.metrics.metric import MetricInfo, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class ContextRecall:
    """Statements of the reference supported by some context ÷ all statements of the reference.

    A grading judge, such as the offline judge, gives one grade to the whole reference instead; the share is the note.
    """

    info = MetricInfo(
        name="context_recall",
        version="2",
        title="Context recall",
        blames="retrieval",
        source="RAGAS documentation, context recall; statement-level attribution to the reference",
        answerless=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if not sample.reference or not sample.answerable:
            return frozenset()
        return frozenset({JudgementKind.CONTEXT_USE})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
        use = judgements.context_use
        if use is None or isinstance(use, JudgementFailure):
            return missing(use, "context judgements")
        if not use.against_reference or not use.reference_statements:
            return Failed("judge", "no statements were found in the reference")
        wanted = [statement.id for statement in use.reference_statements]
        if [attribution.statement_id for attribution in use.attributions] != wanted:
            return Failed("judge", "the attributions do not match the reference's statements one to one")
        held = sum(attribution.verdict is Verdict.SUPPORTED for attribution in use.attributions)
        return graded(use.probability, held, len(wanted), "statements of the reference held")
