"""Relevancy of answers and of contexts, by the offline judge."""

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
    assert relevancy(question, "The parcel does leave.", text) == 0.0, "it says nothing new"


def test_the_last_sentence_says_what_is_asked_for() -> None:
    answer = "Order 123 is cancelled."
    context = "Order 123 can be cancelled until it ships."
    alone = relevancy("Cancel order 123.", answer, context)
    after_another = relevancy("When does order 123 ship? Cancel it.", answer, context)
    assert alone > 0.5
    assert after_another > 0.5


def relevant_share(*contexts: str) -> float:
    judge = OfflineJudge()
    found = asyncio.run(judge.context_relevance("When did the bridge open?", [*map(Context, contexts)], call=Call("s")))
    assert found.probability is not None
    return found.probability


FOCUSED = "The bridge opened in 1932."
ASIDE = "Bees live in hives near the orchard."


@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_is_beside_the_question_lowers_the_relevant_share(count: int) -> None:
    assert relevant_share(" ".join([FOCUSED] + [ASIDE] * count)) < relevant_share(FOCUSED)
    assert relevant_share(FOCUSED, *[ASIDE] * count) < relevant_share(FOCUSED, *[ASIDE] * (count - 1))
    assert relevant_share(*[FOCUSED] * count) == pytest.approx(relevant_share(FOCUSED))


POLICY = "Customers may return items within 30 days of delivery, with a receipt. Sale items can't be returned."


def rated(answer: str, *, contexts: tuple[str, ...] = (POLICY,), references: tuple[str, ...] = ()) -> float:
    question = "What is the return policy for items?"
    work = OfflineJudge().relevancy(question, answer, [*map(Context, contexts)], references, call=Call("s"))
    return asyncio.run(work).similarities[0]


def test_a_true_sentence_about_another_subject_is_not_relevant_however_short() -> None:
    reference = ("Items may be returned within 30 days.",)
    assert rated("The capital of France is Paris.", references=reference) < 0.2
    assert rated("Paris", references=reference) < 0.2
    assert rated("Customers may return items within 30 days of delivery.", references=reference) > 0.8


def test_a_sentence_on_topic_is_as_relevant_where_it_is_wrong_and_a_phrase_only_where_a_text_holds_it() -> None:
    right = rated("Customers may return items within 30 days of delivery.")
    assert rated("Customers may return items within 60 days of delivery.") == pytest.approx(right, abs=0.1)
    assert rated("30 days.") > 0.8
    assert rated("60 days.") <= 0.3
    assert rated("It says so.") == 0.0
    assert rated("30 days.", contexts=()) == 0.3, "nothing to compare it with"
