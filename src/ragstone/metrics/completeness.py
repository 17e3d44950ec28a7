"""Completeness: how much of the reference the answer says."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements, ReferenceMatch, StatementList, Verdict
from ragstone.metrics.metric import MetricInfo, answering, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class Completeness:
    """Statements of the reference that the answer gives ÷ all statements of the reference.

    It uses the verdicts of answer correctness, whose recall it is for an answer that claims something. Alone it isn't
    lowered by what the answer says besides, and it doesn't apply to unanswerable samples, which have nothing to be
    complete about. Abstaining from an answerable question, and an empty answer, score 0. If the judge provides a finer
    share than counted verdicts, as the offline judge does, it is used, and the count is the note.
    """

    info = MetricInfo(
        name="completeness",
        version="1",
        title="Completeness",
        blames="both",
        source="Claim recall, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        divides=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if self.excuse(sample) is not None:
            return frozenset()
        return frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        if not response.answer.strip():
            return Scored(0.0, note="the answer is empty")
        found = answering(sample, judgements)
        if not isinstance(found, StatementList):
            return found
        match = judgements.reference_match
        if not isinstance(match, ReferenceMatch):
            return missing(match, "reference verdicts")
        wanted = [statement.id for statement in match.reference_statements]
        if not wanted:
            return Failed("judge", "no statements were found in the reference")
        if [support.statement_id for support in match.reference_supports] != wanted:
            return Failed("judge", "the verdicts do not match the reference's statements one to one")
        given = sum(support.verdict is Verdict.SUPPORTED for support in match.reference_supports)
        return graded(match.reference_share, given, len(wanted), "statements of the reference given")
