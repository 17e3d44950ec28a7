"""Phrases are compiled when a text may match them: nothing that a pattern matches is missed."""

from __future__ import annotations

import pytest

from ragstone.judge.offline.phrases import first_match, full_match
from scripts.phrases import FILE, needed_words, text


def test_the_phrases_are_those_of_the_source() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "make generated"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?:please )?note that\\s+", ["note that", "please note "]),
        ("[^.]{0,9}\\b(?:advice|help)\\b", ["help", "advice"]),
        ("(?:a|b)(?:c|d)", ["ac", "ad", "bc", "bd"]),
        ("tips?\\d", ["tip"]),
        ("(?=.*advice)\\w+", ["advice"]),
        ("(?:help )*us", ["us"]),
        ("(?:help)?", [""]),
        ("x|\\w", [""]),
    ],
)
def test_a_match_contains_one_of_the_words(pattern: str, words: list[str]) -> None:
    assert needed_words(pattern) == words


def test_a_phrase_may_end_before_its_text_does_or_be_all_of_it() -> None:
    opening = first_match("openings", "en", "Well, it closes at six")
    assert opening
    assert opening.span() == (0, 6)
    assert full_match("citations", "shared", "passage 2")
    assert full_match("citations", "shared", "passage 2 is long") is None
