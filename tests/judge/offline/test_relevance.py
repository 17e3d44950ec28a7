"""Answer relevancy by the offline judge: what kind of phrase a question asks for."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context


def relevancy(question: str, answer: str, context: str) -> float:
    judged = asyncio.run(OfflineJudge().relevancy(question, answer, [Context(context)], [], call=Call("q")))
    return judged.similarities[0]


@pytest.mark.parametrize("day", ["Monday", "March", "tomorrow"])
def test_a_day_or_a_month_answers_when(day: str) -> None:
    question = "When does the parcel leave?"
    text = f"The parcel leaves {day}."
    assert relevancy(question, text, text) > relevancy(question, "The parcel leaves soon.", text) + 0.3


def test_the_last_sentence_says_what_is_asked_for() -> None:
    answer = "Order 123 is cancelled."
    context = "Order 123 can be cancelled until it ships."
    alone = relevancy("Cancel order 123.", answer, context)
    after_another = relevancy("When does order 123 ship? Cancel it.", answer, context)
    assert alone > 0.5
    assert after_another > 0.5
