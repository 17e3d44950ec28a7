"""What kind of answer a response gives."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.answer_kinds import AnswerKind, kind_of
from ragstone.system.response import Context

PASSAGE = (
    "A single ticket costs 7 euros for adults and 3 euros for children between 4 and 14 years. Children under 4 travel "
    "free of charge. A day ticket costs 12 euros and is valid until the last crossing of the same day. Tickets can be "
    "bought at the harbour office, on board from the purser, or in the app. Students with a valid card pay 5 euros for "
    "a single ticket, and groups of ten adults or more pay a fifth less than all others do on the days of the week."
)
CONTEXTS = (Context(PASSAGE, "tickets"), Context("Dogs travel free, and must be on a leash on all decks.", "dogs"))


def kind(answer: str, *, reference: str = "Adults pay 7 euros.", **judged: Any) -> AnswerKind:
    found = {"abstains": False, "has_claims": True, **judged}
    return kind_of(answer, "What does an adult pay?", reference, CONTEXTS, **found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("A single ticket costs 7 euros.", AnswerKind.ANSWERS),
        ("7 euros.", AnswerKind.TERSE),
        ("", AnswerKind.EMPTY),
        ("## Answer\n\n", AnswerKind.EMPTY),
        ("what does an adult pay", AnswerKind.ECHOES),
        (PASSAGE, AnswerKind.COPIES),
        (CONTEXTS[1].text, AnswerKind.ANSWERS),  # as short as an answer may be
        ("An adult pays 7 euros. " * 6, AnswerKind.LOOPS),
        ("An adult pays 7 euros. In short: an adult pays 7 euros.", AnswerKind.ANSWERS),
        ("An adult pays 7 euros [9].", AnswerKind.ANSWERS),  # whether that is broken, the run shows
    ],
)
def test_an_answer_may_say_nothing_or_nothing_of_its_own(answer: str, expected: AnswerKind) -> None:
    assert kind(answer) is expected


def test_the_judge_says_whether_an_answer_abstains() -> None:
    assert kind("We couldn't possibly comment on that.", abstains=True) is AnswerKind.ABSTAINS
    assert kind("I don't know.") is AnswerKind.ANSWERS


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("day crossing the is until last of A ticket 12 same euros costs valid the and day.", AnswerKind.DISORDERED),
        ("Until the last crossing of the day, for 12 euros.", AnswerKind.ANSWERS),
        ("The committee for tickets was founded in Lisbon by a retired astronomer.", AnswerKind.ANSWERS),
        ("of ticket 7 a euros", AnswerKind.ANSWERS),  # too few words to say
        ("A single ticket costs 7 eur", AnswerKind.CUT),
        ("Tickets can be bought at the harbour office", AnswerKind.ANSWERS),
        ("A single ticket is for an adult", AnswerKind.ANSWERS),  # "adults" is another form of it
        ("Ein Erwachsener bezahlt für die einfache Fahrt mit der Fähre 7 Euro.", AnswerKind.FOREIGN),
        ("Guten Tag! An adult pays 7 euros for a single ticket.", AnswerKind.ANSWERS),
        ('{"tool": "search", "arguments": {"query": "What does an adult pay?"}}', AnswerKind.ECHOES),
        ("You asked: What does an adult pay? 7 euros.", AnswerKind.ANSWERS),
    ],
)
def test_an_answer_may_be_broken_in_its_form(answer: str, expected: AnswerKind) -> None:
    wanted = "An adult pays 7 euros for a single ticket, and 12 for the whole day."
    found = kind_of(answer, "What does an adult pay?", wanted, CONTEXTS, abstains=False, has_claims=True)
    assert found is expected


SENTENCE = "It costs 7 euros. "
OTHERS = "Children under four travel free of charge if an adult is with them."


def words(count: int) -> str:
    return " ".join(f"word{number}" for number in range(count))


@pytest.mark.parametrize(
    ("answer", "judged", "expected"),
    [
        ("Thanks for asking me.", {"has_claims": False}, AnswerKind.EVADES),
        ("Thanks for asking.", {"has_claims": False}, AnswerKind.ANSWERS),
        ("What does an adult pay? I would like to know.", {}, AnswerKind.ECHOES),
        ("What does an adult pay? I would like to know now.", {}, AnswerKind.ANSWERS),
        ("What does an adult pay? I would like to know.", {"reference": ""}, AnswerKind.ANSWERS),
        ("What does an adult pay?", {"reference": ""}, AnswerKind.ECHOES),
        ("So 7. " * 3, {}, AnswerKind.LOOPS),
        (SENTENCE * 4 + OTHERS, {}, AnswerKind.LOOPS),
        (SENTENCE * 3 + OTHERS, {}, AnswerKind.ANSWERS),
        ("Adults must pay for it and", {}, AnswerKind.CUT),
        ("Adults and", {}, AnswerKind.ANSWERS),
        ("As cheap as it can", {"reference": "It is as cheap as it can be, and as it can"}, AnswerKind.TERSE),
        ("It is as cheap as the", {"reference": "It is as cheap as the others are."}, AnswerKind.CUT),
        (f"{PASSAGE} That is all.", {"reference": PASSAGE}, AnswerKind.ANSWERS),
    ],
)
def test_each_kind_has_its_bounds(answer: str, judged: dict[str, Any], expected: AnswerKind) -> None:
    assert kind(answer, **judged) is expected


@pytest.mark.parametrize(
    ("copied", "more", "expected"), [(60, 0, "copies"), (59, 0, "answers"), (80, 20, "copies"), (80, 21, "answers")]
)
def test_an_answer_copies_if_most_of_it_is_whole_contexts(copied: int, more: int, expected: str) -> None:
    answer = f"{words(copied)} {'more ' * more}"
    found = kind_of(answer + ".", "Why?", "", (Context(words(copied)),), abstains=False, has_claims=True)
    assert found == expected


def test_an_answer_in_the_language_of_the_question_is_not_foreign_to_its_contexts() -> None:
    german = "Ein Erwachsener bezahlt für die einfache Fahrt mit der Fähre 7 Euro."
    asked = "Wie viel bezahlt ein Erwachsener für die Fahrt mit der Fähre?"
    assert kind_of(german, asked, "", CONTEXTS, abstains=False, has_claims=True) is AnswerKind.ANSWERS
    assert kind_of(german, "Preise?", "", CONTEXTS, abstains=False, has_claims=True) is AnswerKind.ANSWERS


def test_a_line_about_the_answer_is_no_cut_end() -> None:
    answer, source = "A single ticket costs 7 euros for adults", "A single ticket costs 7 euros, and is higher in July."
    assert kind(f"{answer}.\n\nConfidence: high", reference=source) is not AnswerKind.CUT
    assert kind(f"{answer} if the wind is high", reference=source) is AnswerKind.CUT
