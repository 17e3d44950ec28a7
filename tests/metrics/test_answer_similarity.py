"""Similarity to the reference, and ragas' weighted correctness."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import replace
from itertools import product

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import NO_EMBEDDINGS
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    AnswerSimilarity,
    JudgementFailure,
    JudgementKind,
    Judgements,
    StatementList,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.topic import Topic
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import LexicalSimilarity
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response
from tests.metrics.judged import matched

SAMPLE = Sample("a", "When?", reference="In 1931.", other_references=("In the year 1931.",))
SIMILAR = JudgementKind.ANSWER_SIMILARITY


def score(name: str, judgements: Judgements, sample: Sample = SAMPLE, answer: str = "In 1931.") -> Score:
    (metric,) = select_metrics([name])
    return metric.score(sample, Response("a", answer), judgements)


def judged(answer: list[bool], reference: list[bool], cosine: float) -> Judgements:
    return replace(matched(answer, reference), answer_similarity=AnswerSimilarity((cosine,)))


def f1(right: int, wrong: int, left_out: int) -> float:
    """The harmonic mean of precision and recall, which ragas writes as TP / (TP + 0.5 (FP + FN))."""
    return statistics.harmonic_mean([right / (right + wrong), right / (right + left_out)]) if right else 0.0


@pytest.mark.parametrize(("right", "wrong", "left_out"), list(product(range(4), range(3), range(3))))
def test_weighted_correctness_is_that_of_ragas(right: int, wrong: int, left_out: int) -> None:
    if right + wrong == 0:
        return
    judgements = judged([True] * right + [False] * wrong, [False] * left_out + [True], 0.6)
    found = score("answer_correctness_weighted", judgements)
    assert isinstance(found, Scored)
    assert found.value == pytest.approx(0.75 * f1(right, wrong, left_out) + 0.25 * 0.6)


def test_weighted_correctness_needs_both_halves() -> None:
    both = judged([True], [True], 0.9)
    gone = JudgementFailure(NO_EMBEDDINGS, not_applicable=True)
    assert score("answer_correctness_weighted", replace(both, answer_similarity=gone)) == NotApplicable(NO_EMBEDDINGS)
    assert isinstance(score("answer_correctness_weighted", replace(both, reference_match=None)), Failed)
    silent = Judgements(statements=StatementList((), abstains=True))
    assert score("answer_correctness_weighted", silent) == Scored(0.0, "abstains on a question that can be answered")


@pytest.mark.parametrize(("cosines", "value"), [((0.3, 0.8), 0.8), ((-0.2, -0.4), 0.0), ((1.0,), 1.0)])
def test_the_nearest_reference_counts(cosines: tuple[float, ...], value: float) -> None:
    assert score("answer_similarity", Judgements(answer_similarity=AnswerSimilarity(cosines))) == Scored(value)


@pytest.mark.parametrize("cosines", [(), (float("nan"),), (1.5,)])
def test_what_is_no_cosine_is_no_score(cosines: tuple[float, ...]) -> None:
    assert isinstance(score("answer_similarity", Judgements(answer_similarity=AnswerSimilarity(cosines))), Failed)


def test_an_empty_answer_is_like_nothing() -> None:
    assert score("answer_similarity", Judgements(), answer=" ") == Scored(0.0, "the answer is empty")


@pytest.mark.parametrize("sample", [Sample("a", "When?"), replace(SAMPLE, answerable=False)])
def test_without_a_reference_there_is_nothing_to_compare(sample: Sample) -> None:
    (metric,) = select_metrics(["answer_similarity"])
    assert isinstance(score("answer_similarity", Judgements(), sample), NotApplicable)
    assert metric.needs(sample) == frozenset()


def collect(judge: OfflineJudge | WithEarlierAnswers) -> Judgements:
    response = Response("a", "In the year 1931.")
    return asyncio.run(collect_judgements(judge, SAMPLE, response, frozenset({SIMILAR}), Call("a")))


def test_a_judge_without_embeddings_does_not_count_words_instead() -> None:
    found = collect(OfflineJudge())
    assert found.answer_similarity == JudgementFailure(NO_EMBEDDINGS, not_applicable=True)
    assert isinstance(score("answer_similarity", found), NotApplicable)


def test_the_offline_judge_with_embeddings_compares_with_every_reference() -> None:
    judge = OfflineJudge(topic=Topic(LexicalSimilarity(["When?"])))
    for one in (judge, WithEarlierAnswers(judge, lambda _: None)):
        found = collect(one).answer_similarity
        assert isinstance(found, AnswerSimilarity)
        assert len(found.cosines) == 2
        assert found.cosines[1] == pytest.approx(1.0)
        assert found.cosines[0] < 1.0


@pytest.mark.parametrize(
    ("sample", "answer"),
    [
        (SAMPLE, "In the year 1931."),
        (SAMPLE, "I don't know."),
        (SAMPLE, " "),
        (Sample("a", "When?", answerable=False), "I don't know."),
        (Sample("a", "When?", reference="Nobody knows.", answerable=False), "In 1931."),
    ],
)
@pytest.mark.parametrize("embeddings", [False, True])
def test_abstention_is_scored_only_where_answers_are(sample: Sample, answer: str, embeddings: bool) -> None:
    (metric,) = select_metrics(["answer_correctness_weighted"])
    judge = OfflineJudge(topic=Topic(LexicalSimilarity(["When?"])) if embeddings else None)
    response = Response("a", answer)
    found = asyncio.run(collect_judgements(judge, sample, response, metric.needs(sample), Call("a")))
    assert (found.reference_match is None) is (not sample.answerable)
    rated = metric.score(sample, response, found)
    if not embeddings:
        assert rated == NotApplicable(NO_EMBEDDINGS)
    else:
        assert isinstance(rated, Scored)
        assert (rated.value > 0.5) is (sample.answerable == ("1931" in answer))
