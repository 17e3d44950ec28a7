"""Nearly the same wording, found without comparing all pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.tools.generate.near_duplicates import Pair, find_repeats, similar_pairs


@pytest.mark.parametrize(
    ("first", "second", "are_similar"),
    [
        ("How long is the warranty?", "how long is warranty", True),
        ("Wie lange gilt die Garantie?", "Wie lang gilt die Garantie?", True),
        ("What is the daily allowance in Berlin?", "What is the daily allowance for Berlin?", True),
        ("What is the daily allowance in Berlin?", "What is the daily allowance in Munich?", False),
        ("Can I return shoes after 30 days?", "Can I return shoes after 14 days?", False),
        ("Does the policy cover theft?", "Does the policy cover fire?", False),
        ("", "?", False),
    ],
)
def test_questions_with_nearly_the_same_wording_are_found_unless_another_thing_is_asked(
    first: str, second: str, are_similar: bool
) -> None:
    pairs = similar_pairs([first, second, "Where is the office?", "How may I pay by invoice?"])
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1)] * are_similar


WORDS = ["warranty", "returns", "shoes", "travel", "allowance", "the", "of", "days", "long", "who"]


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=25), st.floats(0.3, 0.95))
def test_no_pair_is_missed_whatever_the_limit(texts: list[str], least: float) -> None:
    everything = similar_pairs(texts, min_similarity=1e-6)
    expected = [pair for pair in everything if pair.similarity >= least]
    assert similar_pairs(texts, min_similarity=least) == expected
    identical = {(texts.index(text), place) for place, text in enumerate(texts) if texts.index(text) < place}
    assert identical <= {(pair.first, pair.second) for pair in everything if pair.similarity == 1.0}


def test_repeats_are_those_of_a_text_that_stays() -> None:
    known = ["How long is the warranty of shoes?"]
    texts = [
        "how long is the warranty of shoes",
        "How long is the warranty of our shoes?",
        "Who pays for the journey home?",
        "Who pays for the journey home??",
        "Where is the office of the company?",
    ]
    repeated = find_repeats(texts, known)
    assert {place: pair.first for place, pair in repeated.items()} == {0: 0, 1: 0, 3: 3}
    assert [repeated[place].similarity == 1.0 for place in (0, 1, 3)] == [True, False, True]
    assert find_repeats(texts[2:], []) == {1: Pair(0, 1, 1.0)}
    assert find_repeats([], known) == {}
