"""Completeness: how much of the reference the answer says."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    answering,
    fail,
    graded,
    require,
    supported,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


class Completeness(BaseMetric):
    """Statements of the reference that the answer gives ÷ all statements of the
    reference.

    It uses the verdicts of answer correctness, whose recall it is for an answer that
    claims something. Alone it isn't lowered by what the answer says besides, and it
    doesn't apply to unanswerable samples, which have nothing to be complete about.
    Abstaining from an answerable question, and an empty answer, score 0. If the judge
    provides a finer share than counted verdicts, as the offline judge does, it is used,
    and the count is the note.
    """

    info = MetricInfo(
        name="completeness",
        version="1",
        blames="both",
        source="Claim recall, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        divides=True,
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})
    answerable_only = reference_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.answer.strip():
            return Scored(0.0, note="the answer is empty")
        answering(sample, judgements)
        match = require(judgements.reference_match, "reference verdicts")
        statements = match.reference_statements
        if not statements:
            fail("no statements were found in the reference")
        mismatch = "the verdicts do not match the reference's statements"
        stated = supported(match.reference_supports, statements, mismatch)
        return graded(
            match.reference_share,
            stated,
            len(statements),
            "statements of the reference given",
        )
