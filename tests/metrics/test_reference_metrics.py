"""SQuAD's measures, entities and limits, edge by edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import EntityList, JudgementFailure, Judgements
from ragstone.metrics.limits import word_count
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.metrics.squad import exact_match, token_f1
from ragstone.system.response import NO_STEPS, Context, ModelCall, Response
from tests.metrics.judged import score


def recalled(reference: str, *contexts: str, entities: EntityList | JudgementFailure | None = None) -> Score:
    sample = Sample("a", "Who?", reference=reference)
    response = Response("a", "Ada Brown.", tuple(Context(text) for text in contexts))
    return score("context_entity_recall", sample, response, Judgements(entities=entities))


@pytest.mark.parametrize(
    ("answer", "reference", "em", "f1"),
    [
        ("The  Cat!", "cat", 1.0, 1.0),
        ("a black cat", "the cat", 0.0, 2 / 3),
        ("", "cat", 0.0, 0.0),
        ("the the", "an", 1.0, 1.0),
        ("cat cat", "cat", 0.0, 2 / 3),
        ("A.B, an  The-Answer", "ab theanswer", 1.0, 1.0),  # articles go after punctuation
    ],
)
def test_exact_match_and_token_f1_are_those_of_squad(answer: str, reference: str, em: float, f1: float) -> None:
    assert exact_match(answer, reference) == em
    assert token_f1(answer, reference) == pytest.approx(f1)


TAJ = (
    "The Taj Mahal is a white mausoleum on the river Yamuna in Agra. It was commissioned in 1631 by Shah Jahan for "
    "Mumtaz Mahal."
)
FLIGHT = "You take the Flynas Flight to Riyadh."


@pytest.mark.parametrize(
    ("reference", "contexts", "share"),
    [
        ("Einstein was born in Ulm, and moved to Bern and Princeton.", ["Einstein played the violin."], 1 / 4),
        ("Paris hosts it, after London, Rome and Tokyo.", ["The games of Paris are over."], 1 / 4),
        (TAJ, ["The Taj Mahal is a monument in India, and a site of UNESCO."], 1 / 6),
        (TAJ, ["Shah Jahan had the Taj Mahal in Agra built for Mumtaz Mahal."], 4 / 6),
        ("It leaves at 10:00.", ["Departures: 10:00 and 12:30."], 1.0),
        ("It leaves at 10:00.", ["Gate 10 opens.", "In 00 minutes."], 0.0),
        ("Delivery takes 3 days.", ["Free delivery within 5 days."], 0.0),
        # A common noun with a capital is no part of a name.
        (FLIGHT, ["Flynas goes to Riyadh."], 0.5),
        (FLIGHT, ["Flynas goes to Riyadh.", "Every flight is full."], 1.0),
        ("Flynas launched Flight 123 to Riyadh at 10:00 AM.", ["Flynas is an airline."], 0.25),
        ("Flynas operates Flight 123 to Riyadh at 10:00 AM.", ["Flight 321 leaves for Riyadh."], 0.25),
    ],
)
def test_which_entities_of_the_reference_are_in_the_contexts(reference: str, contexts: list[str], share: float) -> None:
    assert recalled(reference, *contexts) == Scored(share)


def test_in_german_nouns_are_no_names() -> None:
    german = "Der Vertrag mit der Deutschen Bahn und der DB endet im Mai, und die Kündigung geht an Anna Müller."
    assert recalled(german, "Deutsche Bahn: Anna Müller ist bei der DB zuständig.") == Scored(1.0)
    assert isinstance(recalled("Die Kündigung braucht eine Frist.", "Nichts."), NotApplicable)


def test_the_best_of_several_references_counts_by_writing() -> None:
    sample = Sample(
        "a", "Who?", reference="Ask Ada Brown.", other_references=("Ask the clerk of Grey Point.", "By hand.")
    )
    assert score("context_entity_recall", sample, Response("a", "", (Context("It is at Grey Point."),))) == Scored(1.0)


def test_entities_that_the_judge_listed_are_looked_for_and_the_missing_ones_named() -> None:
    listed = EntityList(("Flynas", "10:00", "駅前", "SAR 450"))
    found = recalled("…", "Flynas at 10:00.", "From 駅前 station.", entities=listed)
    assert found == Scored(0.75, note="3 of 4 entities; missing: SAR 450")
    assert recalled("…", entities=listed) == Scored(0.0, note="no contexts were returned")
    assert recalled("Ada Brown.") == Scored(0.0, note="no contexts were returned")
    assert isinstance(recalled("Ada Brown.", "Ada Brown.", entities=EntityList(())), NotApplicable)
    assert recalled("Ada Brown.", "Ada Brown.", entities=JudgementFailure("cut off")) == Failed("judge", "cut off")


WORDS = Response("a", "one two three", (Context("one two"), Context("three four")), latency_s=2.0)


@pytest.mark.parametrize(
    ("name", "response", "expected"),
    [
        ("latency_within@2", WORDS, Scored(1.0, note="2")),
        ("latency_within@1.9", WORDS, Scored(0.0, note="2")),
        ("latency_within@2", Response("a", ""), NotApplicable("the answer was recorded without a latency")),
        ("words_within@2", WORDS, Scored(0.0, note="3")),
        ("contexts_within@3", WORDS, Scored(0.0, note="4")),
        ("steps_within@2", replace(WORDS, steps=(ModelCall("m"),) * 2), Scored(1.0, note="2")),
        ("steps_within@2", replace(WORDS, steps=(ModelCall("m"),) * 3), Scored(0.0, note="3")),
        ("steps_within@2", WORDS, NotApplicable(NO_STEPS)),
    ],
)
def test_limits_score_one_within_and_zero_beyond(name: str, response: Response, expected: Score) -> None:
    assert score(name, Sample("a", "Who?"), response) == expected


@pytest.mark.parametrize(("text", "words"), [("今日は天気", 3), ("Größe 今日", 2)])
def test_two_characters_without_spaces_count_as_a_word(text: str, words: int) -> None:
    assert word_count(text) == words
