"""Similarity to the reference: which judges are asked for it, and about what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import AnswerSimilarity, JudgementFailure, JudgementKind, Judgements
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call
from ragstone.system.response import Response

SAMPLE = Sample("a", "When?", reference="In 1931.", other_references=("In the year 1931.",))
SIMILAR = JudgementKind.ANSWER_SIMILARITY


class ComparingJudge(OfflineJudge):
    """Finds an answer similar to a reference of the same words."""

    async def answer_similarity(self, answer: str, references: Sequence[str], *, call: Call) -> AnswerSimilarity:
        return AnswerSimilarity(tuple(float(answer == reference) for reference in references))


def collect(judge: OfflineJudge | WithEarlierAnswers) -> Judgements:
    response = Response("a", "In the year 1931.")
    return asyncio.run(collect_judgements(judge, SAMPLE, response, frozenset({SIMILAR}), Call("a")))


def test_an_answer_is_compared_with_every_reference() -> None:
    judge = ComparingJudge()
    for one in (judge, WithEarlierAnswers(judge, lambda _: None)):
        assert collect(one).answer_similarity == AnswerSimilarity((0.0, 1.0))


def test_a_judge_without_embeddings_compares_nothing() -> None:
    similarity = collect(OfflineJudge()).answer_similarity
    assert isinstance(similarity, JudgementFailure)
    assert similarity.not_applicable
