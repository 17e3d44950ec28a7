"""Right answers in conversations are supported as the same answers to standalone questions are."""

from __future__ import annotations

import asyncio
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.sample import Message, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind, SupportTable, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context, ConversationSoFar, Response

DATA = Path(__file__).with_name("conversations.toml")
NEEDS = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
Case = tuple[Sample, Response]


def turns_of(conversation: dict[str, Any]) -> Iterator[tuple[Case, Case]]:
    """Each right answer as a turn, with the passages of the turns before, and as the answer to the question written
    out, with the passages that it needs."""
    passages = [Context(text) for text in conversation["passages"]]
    messages: list[Message] = []
    earlier: list[Context] = []
    for question, written_out, answer, places in conversation["turns"]:
        retrieved = tuple(passages[place - 1] for place in places)
        so_far = ConversationSoFar(tuple(messages), tuple(earlier))
        turn = Sample("turn", question, history=tuple(messages))
        alone = Sample("alone", written_out or question)
        yield (
            (turn, Response(turn.id, answer, retrieved, so_far=so_far)),
            (alone, Response(alone.id, answer, retrieved or tuple(earlier))),
        )
        messages += [Message("user", question), Message("assistant", answer)]
        earlier += retrieved


async def is_unsupported(judge: OfflineJudge, case: Case) -> bool:
    sample, response = case
    judged = await collect_judgements(judge, sample, response, NEEDS, Call(sample.id))
    assert isinstance(judged.support, SupportTable)
    return any(support.verdict is not Verdict.SUPPORTED for support in judged.support.supports)


@pytest.mark.heavy
def test_turns_are_called_unsupported_no_more_often_than_questions_that_stand_alone() -> None:
    judge = OfflineJudge()
    answers, as_turns, alone = Counter[str](), Counter[str](), Counter[str]()
    for conversation in tomllib.loads(DATA.read_text(encoding="utf-8"))["conversations"]:
        field = conversation["field"]
        for turn, written_out in turns_of(conversation):
            answers[field] += 1
            as_turns[field] += asyncio.run(is_unsupported(judge, turn))
            alone[field] += asyncio.run(is_unsupported(judge, written_out))
    assert answers == {"visitors": 60, "software": 60, "handbook": 60}
    for field, count in answers.items():
        assert (as_turns[field] - alone[field]) / count <= 0.05
        assert as_turns[field] / count <= 0.05
