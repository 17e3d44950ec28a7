"""Phrases are compiled when a text may match them: nothing that a pattern matches is missed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.judge.offline.phrases import first_match, lowered, matches_whole, without_phrases
from scripts.phrases import FILE, beginnings, needed_words, text


def test_the_phrases_are_those_of_the_source() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "make generated"


def test_phrases_are_in_lower_case_as_the_texts_are() -> None:
    for kinds in json.loads(FILE.read_text(encoding="utf-8")).values():
        for pattern in (pattern for patterns in kinds.values() for pattern in patterns):
            letters = re.sub(r"\\.", "", pattern)
            assert letters == letters.lower()


@pytest.mark.parametrize("word", ["ABOUT IT", "İs ıt ſo", "Straße", "ΣΟΦΌΣ"])
def test_a_text_in_lower_case_is_as_long_as_before(word: str) -> None:
    assert len(lowered(word)) == len(word)
    assert lowered("İs ıt ſO") == "is it so"


def test_what_phrases_match_goes_and_the_rest_stays_as_written() -> None:
    text = "Rain Fell (See PASSAGE 2), İ think."
    assert without_phrases("mentions", "en", text) == text
    assert without_phrases("announced", "shared", "True or FALSE: is It Hot") == "is It Hot"


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


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(?:please )?note that\\s+", ["note that", "please note "]),
        ("(?:a|b)(?:c|d)", ["ac", "ad", "bc", "bd"]),
        ("(?:tips?|advice\\d+) here", ["tip", "advice"]),
        ("(?:help )*us", [""]),
        ("\\bhelp\\w+", ["help"]),
        ("x?\\w", [""]),
    ],
)
def test_a_text_that_is_matched_at_its_start_has_one_of_the_beginnings(pattern: str, expected: list[str]) -> None:
    assert beginnings(pattern) == expected


MARKED = [
    (pattern, *marks)
    for kinds in json.loads(FILE.read_text(encoding="utf-8")).values()
    for phrases in kinds.values()
    for pattern, marks in phrases.items()
]


@pytest.mark.heavy
@pytest.mark.parametrize("place", range(len(MARKED)))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_a_pattern_matches_has_its_beginnings_and_its_words(place: int, data: st.DataObject) -> None:
    pattern, starts, words = MARKED[place]
    text = lowered(data.draw(st.from_regex(re.compile(pattern))))
    match = re.search(pattern, text)
    if match:
        assert any(word in text for word in words)
        if re.match(pattern, text[match.start() :]):
            assert text.startswith(tuple(starts), match.start())


def test_a_phrase_may_end_before_its_text_does_or_be_all_of_it() -> None:
    opening = first_match("openings", "en", "Well, it closes at six")
    assert opening
    assert opening.span() == (0, 6)
    assert matches_whole("citations", "shared", "Passage 2")
    assert not matches_whole("citations", "shared", "passage 2 is long")
