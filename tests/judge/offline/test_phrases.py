"""Phrases are compiled when a text may match them: nothing that a pattern matches is missed."""

from __future__ import annotations

import re

import pytest

from ragstone.judge.offline.phrases import anywhere, filled_patterns, full_match, matches
from scripts.phrase_words import FILE, beginnings, needed_words, text


def test_the_words_of_all_phrases_are_those_of_the_patterns() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "make generated"


@pytest.mark.parametrize(
    ("pattern", "begin", "words"),
    [
        ("(?:please )?note that\\s+", ["note", "plea"], ["note that", "please note "]),
        ("[^.]{0,9}\\b(?:advice|help)\\b", [""], ["help", "advice"]),
        ("(?:a|b)(?:c|d)", ["ac", "ad", "bc", "bd"], ["ac", "ad", "bc", "bd"]),
        ("(?:if [^.]{1,9}, )?ask", ["ask", "if "], ["ask"]),
        ("tips?\\d", ["tip", "tips"], ["tip"]),
        ("(?=.*advice)\\w+", [""], ["advice"]),
        ("(?:help )*us", ["help", "us"], ["us"]),
        ("\\w*", [""], [""]),
        ("(?:help)?", [""], [""]),
        ("x|\\w", [""], [""]),
    ],
)
def test_a_match_begins_and_contains(pattern: str, begin: list[str], words: list[str]) -> None:
    assert beginnings(pattern) == begin
    assert needed_words(pattern) == words


@pytest.mark.parametrize("written", ["THİS İS JUST AN OPINION.", "i ſuggeſt you aſk a doctor.", "ı hope this helps"])
def test_phrases_are_found_in_letters_of_odd_case(written: str) -> None:
    patterns = [re.compile(pattern, re.IGNORECASE) for pattern in filled_patterns("asides", "en")]
    matched = [match for pattern in patterns if (match := pattern.match(written))]
    assert [match.span() for match in matches("asides", "en", written)] == [match.span() for match in matched]


def test_a_phrase_may_begin_within_a_text_and_end_before_its_end() -> None:
    first = next(matches("openers", "en", "Note: well, it closes at six", 6))
    assert first.span() == (6, 12)
    assert anywhere("ends", "en", "It closes at six, according to the handbook.").search(
        "It closes at six, according to the handbook."
    )
    assert anywhere("ends", "en", "It closes at six.").search("It closes at six.") is None
    assert full_match("citations", "shared", "passage 2")
    assert full_match("citations", "shared", "passage 2 is long") is None
