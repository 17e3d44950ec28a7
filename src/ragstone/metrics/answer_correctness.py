"""Answer correctness: compares the answer with the reference, statement by
statement."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementKind,
    Judgements,
    ReferenceMatch,
    Statement,
)
from ragstone.metrics.metric import (
    AbstentionMetric,
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


class AnswerCorrectness(AbstentionMetric):
    """Harmonic mean of two shares: of the answer's statements that the reference
    supports, and of the reference's statements that the answer gives.

    If the judge grades the two shares more finely than by counted verdicts, as the
    offline judge does, its grades are used, and the counts are in the note. On an unanswerable sample, abstaining
    scores 1 and answering 0; on an answerable one, abstaining scores 0.
    """

    info = MetricInfo(
        name="answer_correctness",
        version="2",
        blames="generation",
        source="Statement-level F1, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        is_in_oracle_round=True,
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_answering(sample, judgements).statements
        match = require(judgements.reference_match, "reference verdicts")
        return agreement(match, statements, where="in the answer or in the reference")


def agreement(
    match: ReferenceMatch, statements: Sequence[Statement], *, where: str
) -> Scored:
    """The harmonic mean of the shares of `statements` that the reference supports, and
    of the reference's statements that they give.

    Raises EarlyScore if there are no statements; the reason says `where`.
    """
    if not statements or not match.reference_statements:
        fail(f"no statements were found {where}")
    mismatch = "the verdicts do not match the statements"
    require_each_statement(match.answer_supports, statements, mismatch)
    require_each_statement(
        match.reference_supports, match.reference_statements, mismatch
    )
    precision = grade_or_share(
        match.answer_share,
        count=count_supported(match.answer_supports),
        total=len(statements),
        what="statements backed",
    )
    recall = grade_or_share(
        match.reference_share,
        count=count_supported(match.reference_supports),
        total=len(match.reference_statements),
        what="statements of the reference given",
    )
    notes = [share.note for share in (precision, recall) if share.note]
    value = f1(precision.value, recall.value)
    return Scored(value, note=", ".join(notes) or None)


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of two shares in [0, 1]; 0 if both are 0."""
    if precision + recall:
        return 2 * precision * recall / (precision + recall)
    return 0.0
