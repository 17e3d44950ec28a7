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
    answering,
    fail,
    graded,
    require,
    supported,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


class AnswerCorrectness(AbstentionMetric):
    """Harmonic mean of two shares: of the answer's statements that the reference
    supports, and of the reference's statements that the answer gives.

    If the judge provides finer shares than counted verdicts, as the offline judge does,
    they are used, and the counts are the note. On an unanswerable sample, abstaining
    scores 1 and answering 0; on an answerable one, abstaining scores 0.
    """

    info = MetricInfo(
        name="answer_correctness",
        version="2",
        blames="generation",
        source="Statement-level F1, Ru et al. 2024, RAGChecker, section 3.3 (overall metrics)",
        divides=True,
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})
    reference_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = answering(sample, judgements).statements
        match = require(judgements.reference_match, "reference verdicts")
        return agreement(match, statements, "in the answer or in the reference")


def agreement(
    match: ReferenceMatch, statements: Sequence[Statement], where: str
) -> Scored:
    """Harmonic mean of the shares of `statements` that the reference supports, and of
    its statements that they give.

    `where` is said if there are none. Raises EarlyScore.
    """
    if not statements or not match.reference_statements:
        fail(f"no statements were found {where}")
    mismatch = "the verdicts do not match the statements"
    backed = supported(match.answer_supports, statements, mismatch)
    stated = supported(match.reference_supports, match.reference_statements, mismatch)
    precision = graded(match.answer_share, backed, len(statements), "statements backed")
    recall = graded(
        match.reference_share,
        stated,
        len(match.reference_statements),
        "statements of the reference given",
    )
    notes = [share.note for share in (precision, recall) if share.note]
    value = f1(precision.value, recall.value)
    return Scored(value, note=", ".join(notes) or None)


def f1(precision: float, recall: float) -> float:
    """Harmonic mean of two shares in [0, 1]; 0 if both are 0."""
    if precision + recall:
        return 2 * precision * recall / (precision + recall)
    return 0.0
