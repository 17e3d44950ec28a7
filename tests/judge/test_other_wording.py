"""Whether a statement that the offline judge doesn't find may only be worded otherwise."""

from __future__ import annotations

import pytest

from ragstone.judge.other_wording import may_be_restated, may_be_reworded, stands_in_one_sentence

TEXTS = (
    "Sheds. A shed may be at most 6 square metres large and 2.2 metres high. Sprinklers are not allowed on any plot.",
    "The secretary, Mrs Okafor, keeps the list. Motions have to reach her 14 days before the meeting. The tap is open.",
    "Fruit trees must stay below 3 metres.",
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("It is Mrs Okafor who looks after the list.", True),
        ("The use of sprinklers is forbidden on the plots.", True),
        ("Sprinklers can't be allowed on plots.", True),
        ("A shed may be at most 9 square metres large.", False),  # another number
        ("The list is kept by Mrs Lindqvist.", False),  # another name
        ("Sprinklers are allowed on any plot.", False),
        ("It is not true that a shed may be 6 square metres large.", False),
        ("Fruit trees must stay above 3 metres.", False),
        ("The tap is closed.", False),
        ("A committee of volunteers meets in the old mill.", False),
    ],
)
def test_numbers_names_and_most_words_have_to_be_there(statement: str, expected: bool) -> None:
    assert may_be_reworded(statement, TEXTS, "What are the rules?") is expected


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        ("14 days before the meeting.", "The secretary must receive them 14 days ahead of the meeting.", True),
        ("14 days before the meeting.", "The secretary must receive them 12 days ahead of the meeting.", False),
        ("Mrs Okafor, the secretary.", "It is the secretary, Mrs Okafor.", True),
        ("Mrs Okafor, the secretary.", "It is the secretary.", False),
        ("No, motions are not allowed.", "Motions are allowed.", False),  # the question has all words
    ],
)
def test_a_reference_is_restated_with_its_numbers_names_and_most_words(
    reference: str, answer: str, expected: bool
) -> None:
    assert may_be_restated(reference, answer, "Are motions allowed?") is expected


def test_nouns_with_capitals_are_no_names() -> None:
    texts = ("Die Miete beträgt 96 Euro im Jahr und ist am 1. März fällig.",)
    assert may_be_reworded("Im Jahr kostet ein Garten 96 Euro Miete.", texts, "Wie hoch ist die Miete?")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("14 days before the meeting.", True),
        ("Because motions have to reach her.", True),
        ("Sprinklers, within 14 days.", False),  # in two sentences
        ("Yes.", False),
    ],
)
def test_a_statement_stands_in_one_sentence_with_all_its_words(statement: str, expected: bool) -> None:
    assert stands_in_one_sentence(statement, TEXTS) is expected
