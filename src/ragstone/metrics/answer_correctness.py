"""Answer correctness: compares the answer with the reference, statement by statement."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, StatementList, Verdict
from ragstone.metrics.metric import MetricInfo, answering, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class AnswerCorrectness:
    """Harmonic mean of two shares: of the answer's statements that the reference supports, and of the reference's
    statements that the answer gives.

    If the judge provides finer shares than counted verdicts, as the offline judge does, they are used, and the counts
    are the note. On an unanswerable sample, abstaining scores 1 and answering 0; on an answerable one, abstaining
    scores 0.
    """

    info = MetricInfo(
        name="answer_correctness",
        version="2",
        title="Answer correctness",
        blames="generation",
        source="Statement-level F1, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        divides=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if not sample.answerable:
            return frozenset({JudgementKind.STATEMENTS})
        if not sample.reference:
            return frozenset()
        return frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if sample.answerable and not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        found = answering(sample, judgements)
        if not isinstance(found, StatementList):
            return found
        match = judgements.reference_match
        if match is None or isinstance(match, JudgementFailure):
            return missing(match, "reference verdicts")
        if not found.statements or not match.reference_statements:
            return Failed("judge", "no statements were found in the answer or in the reference")
        answers = [support.statement_id for support in match.answer_supports]
        references = [support.statement_id for support in match.reference_supports]
        if answers != [statement.id for statement in found.statements] or references != [
            statement.id for statement in match.reference_statements
        ]:
            return Failed("judge", "the verdicts do not match the statements one to one")
        backed = sum(support.verdict is Verdict.SUPPORTED for support in match.answer_supports)
        given = sum(support.verdict is Verdict.SUPPORTED for support in match.reference_supports)
        precision = graded(match.answer_share, backed, len(answers), "statements backed")
        recall = graded(match.reference_share, given, len(references), "statements of the reference given")
        if isinstance(precision, Failed) or isinstance(recall, Failed):
            return precision if isinstance(precision, Failed) else recall
        notes = [one.note for one in (precision, recall) if one.note]
        return Scored(f1(precision.value, recall.value), note=", ".join(notes) or None)


def f1(precision: float, recall: float) -> float:
    """Harmonic mean of two shares in [0, 1]; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
