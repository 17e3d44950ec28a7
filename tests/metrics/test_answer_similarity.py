"""Similarity to the reference, and ragas' weighted correctness."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import NO_EMBEDDINGS
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    AnswerSimilarity,
    JudgementKind,
    Judgements,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.topic import Topic
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import LexicalSimilarity
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.system.response import Response

SAMPLE = Sample("a", "When?", reference="In 1931.", other_references=("In the year 1931.",))
SIMILAR = JudgementKind.ANSWER_SIMILARITY


def collect(judge: OfflineJudge | WithEarlierAnswers) -> Judgements:
    response = Response("a", "In the year 1931.")
    return asyncio.run(collect_judgements(judge, SAMPLE, response, frozenset({SIMILAR}), Call("a")))


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
