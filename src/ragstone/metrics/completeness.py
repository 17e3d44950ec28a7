"""Completeness: how much of the reference the answer says."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    count_supported,
    fail,
    grade_or_share,
    require,
    require_answering,
    require_each_statement,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


class Completeness(BaseMetric):
    """Statements of the reference that the answer gives ÷ all statements of the
    reference.

    For an answer with statements, this is the recall of answer correctness. Further
    statements of the answer don't lower it. Abstaining from an answerable question, and
    an empty answer, score 0; not applicable to unanswerable samples. If the judge
    grades the share more finely than by counted verdicts, as the offline judge does,
    its grade is used, and the count is the note.
    """

    info = MetricInfo(
        name="completeness",
        version="1",
        blames="both",
        source="Claim recall, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        is_in_oracle_round=True,
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})
    is_for_answerable_only = True
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.answer.strip():
            return Scored(0.0, note="the answer is empty")
        require_answering(sample, judgements)
        match = require(judgements.reference_match, "reference verdicts")
        statements = match.reference_statements
        if not statements:
            fail("no statements were found in the reference")
        mismatch = "the verdicts do not match the reference's statements"
        require_each_statement(match.reference_supports, statements, mismatch)
        return grade_or_share(
            match.reference_share,
            count=count_supported(match.reference_supports),
            total=len(statements),
            what="statements of the reference given",
        )
