"""Similarity to the reference, and ragas' weighted correctness."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    AnswerSimilarity,
    JudgementKind,
    Judgements,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import LexicalSimilarity
from ragstone.judge.with_embeddings import OfflineJudgeWithEmbeddings
from ragstone.system.response import Response

SAMPLE = Sample("a", "When?", reference="In 1931.", other_references=("In the year 1931.",))
SIMILAR = JudgementKind.ANSWER_SIMILARITY


def collect(judge: OfflineJudge | WithEarlierAnswers) -> Judgements:
    response = Response("a", "In the year 1931.")
    return asyncio.run(collect_judgements(judge, SAMPLE, response, frozenset({SIMILAR}), Call("a")))


def test_the_offline_judge_with_embeddings_compares_with_every_reference() -> None:
    judge = OfflineJudgeWithEmbeddings(LexicalSimilarity(["When?"]))
    for one in (judge, WithEarlierAnswers(judge, lambda _: None)):
        found = collect(one).answer_similarity
        assert isinstance(found, AnswerSimilarity)
        assert len(found.cosines) == 2
        assert found.cosines[1] == pytest.approx(1.0)
        assert found.cosines[0] < 1.0
