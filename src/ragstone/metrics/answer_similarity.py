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
    count_supported,
    fail,
    require,
    require_answering,
)
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

STATEMENTS_WEIGHT = 0.75
"""The weight of the F1 of statements in ragas' answer correctness; the similarity has
the rest."""


class AnswerSimilarity(BaseMetric):
    """Cosine of the embeddings of answer and reference, clamped to [0, 1]. Of several
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
        is_in_oracle_round=True,
    )

    reads = frozenset({JudgementKind.ANSWER_SIMILARITY})
    is_for_answerable_only = True
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        require_embeddings(judgements)
        if not response.answer.strip():
            return Scored(0.0, note="the answer is empty")
        return Scored(highest_cosine(judgements))


class WeightedCorrectness(BaseMetric):
    """ragas' answer correctness: 0.75 · F1 of statements + 0.25 · similarity to the
    reference by embeddings.

    F1 = TP ÷ (TP + (FP + FN) ÷ 2), where TP and FP are the numbers of statements of the
    answer that the reference supports and does not support, and FN the number of
    statements of the reference that the answer doesn't give. Verdicts are counted; a
    judge's grades are not used. Abstaining is scored as in answer correctness, and like
    every other answer only if the judge has embeddings: otherwise the mean would be of
    abstentions alone.
    """

    info = MetricInfo(
        name="answer_correctness_weighted",
        version="2",
        title="Answer correctness (weighted)",
        blames="generation",
        source="RAGAS documentation, answer correctness, weights [0.75, 0.25]; abstention rules are Ragstone's",
        is_in_oracle_round=True,
    )

    reads = frozenset(
        {
            JudgementKind.STATEMENTS,
            JudgementKind.REFERENCE_MATCH,
            JudgementKind.ANSWER_SIMILARITY,
        }
    )
    needs_reference = True

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        needed = super().needs(sample)
        if sample.answerable:
            return needed
        return needed - {JudgementKind.REFERENCE_MATCH}

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        require_embeddings(judgements)
        require_answering(sample, judgements)
        match = require(judgements.reference_match, "reference verdicts")
        if not match.answer_supports:
            fail("no statements were found in the answer")
        if not match.reference_supports:
            fail("no statements were found in the reference")
        similarity = highest_cosine(judgements)
        right = count_supported(match.answer_supports)
        wrong = len(match.answer_supports) - right
        missing = len(match.reference_supports) - count_supported(
            match.reference_supports
        )
        f1 = 0.0
        if right:
            f1 = right / (right + (wrong + missing) / 2)
        note = f"statements {f1:.2f}, similarity {similarity:.2f}"
        value = STATEMENTS_WEIGHT * f1 + (1 - STATEMENTS_WEIGHT) * similarity
        return Scored(value, note=note)


def require_embeddings(judgements: Judgements) -> None:
    """End the formula as not applicable if the judge has no embeddings, even where
    their similarity is not needed for this sample. Raises EarlyScore."""
    similarity = judgements.answer_similarity
    if isinstance(similarity, JudgementFailure) and similarity.not_applicable:
        raise EarlyScore(NotApplicable(similarity.reason))


def highest_cosine(judgements: Judgements) -> float:
    """The highest cosine of the answer with a reference, clamped to [0, 1]. Raises
    EarlyScore if the judge returned none, or a number that is no cosine."""
    cosines = require(judgements.answer_similarity, "similarities").cosines
    if not cosines or not all(-1.0 <= value <= 1.0 for value in cosines):
        fail("the judge returned no similarity in [-1, 1]")
    return max(0.0, *cosines)
