"""Answer similarity: how near the answer is to the reference in meaning, by
embeddings."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementFailure,
    JudgementKind,
    Judgements,
)
from ragstone.metrics.metric import (
    BaseMetric,
    EarlyScore,
    MetricInfo,
    answering,
    count_supported,
    fail,
    require,
)
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

STATEMENTS_WEIGHT = 0.75
"""The weight of the statements in ragas' answer correctness; the rest is that of the
similarity."""


class AnswerSimilarity(BaseMetric):
    """Cosine of the embeddings of answer and reference, clamped to [0, 1]; of several
    references, the nearest counts.

    An empty answer scores 0. Not applicable without a reference, on an unanswerable
    sample, or if the judge has no embeddings: cosines of different models (or of word
    counts) don't compare.
    """

    info = MetricInfo(
        name="answer_similarity",
        version="2",
        blames="generation",
        source="RAGAS documentation, semantic similarity: cosine of the embeddings of response and reference",
        divides=True,
    )

    reads = frozenset({JudgementKind.ANSWER_SIMILARITY})
    answerable_only = reference_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        need_embeddings(judgements)
        if not response.answer.strip():
            return Scored(0.0, note="the answer is empty")
        return Scored(nearest(judgements))


class WeightedCorrectness(BaseMetric):
    """ragas' answer correctness: 0.75 · F1 of statements + 0.25 · similarity to the
    reference by embeddings.

    F1 = TP ÷ (TP + (FP + FN) ÷ 2), where TP and FP are statements of the answer that
    the reference supports or does not, and FN statements of the reference that the
    answer doesn't give. Only verdicts count, no grades. Abstention is scored as in
    answer correctness, but only with embeddings, so that it is never all that is
    scored.
    """

    info = MetricInfo(
        name="answer_correctness_weighted",
        version="2",
        title="Answer correctness (weighted)",
        blames="generation",
        source="RAGAS documentation, answer correctness, weights [0.75, 0.25]; abstention rules are Ragstone's",
        divides=True,
    )

    reads = frozenset(
        {
            JudgementKind.STATEMENTS,
            JudgementKind.REFERENCE_MATCH,
            JudgementKind.ANSWER_SIMILARITY,
        }
    )
    reference_needed = True

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        needed = super().needs(sample)
        if sample.answerable:
            return needed
        return needed - {JudgementKind.REFERENCE_MATCH}

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        need_embeddings(judgements)
        answering(sample, judgements)
        match = require(judgements.reference_match, "reference verdicts")
        if not match.answer_supports or not match.reference_supports:
            fail("no statements were found in the answer or in the reference")
        similarity = nearest(judgements)
        right = count_supported(match.answer_supports)
        wrong = len(match.answer_supports) - right
        recalled = count_supported(match.reference_supports)
        missing = len(match.reference_supports) - recalled
        f1 = 0.0
        if right:
            f1 = right / (right + (wrong + missing) / 2)
        note = f"statements {f1:.2f}, similarity {similarity:.2f}"
        return Scored(
            STATEMENTS_WEIGHT * f1 + (1 - STATEMENTS_WEIGHT) * similarity, note=note
        )


def need_embeddings(judgements: Judgements) -> None:
    """End a formula that no sample has without embeddings: also where it would not
    compare. Raises EarlyScore."""
    similarity = judgements.answer_similarity
    if isinstance(similarity, JudgementFailure) and similarity.not_applicable:
        raise EarlyScore(NotApplicable(similarity.reason))


def nearest(judgements: Judgements) -> float:
    """The highest cosine of the answer with a reference, in [0, 1]. Raises
    EarlyScore."""
    cosines = require(judgements.answer_similarity, "similarities").cosines
    if not cosines or not all(-1.0 <= value <= 1.0 for value in cosines):
        fail("no similarity in [-1, 1] was given")
    return max(0.0, *cosines)
