"""Phrases: patterns that are compiled only when a text may match them, since most texts
match none.

`phrase_words.json` has what every match of a pattern contains;
`scripts/phrase_words.py` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ragstone.judge.offline.lexicon import load_data

NEVER = "(?!)"
SHARED = "shared"
"""The patterns that apply in every language stand under this name, beside the codes of
languages."""

_NAME = re.compile(r"\{([a-z]\w*)\}")
_ODD_CASE = re.compile("[\u0131\u017f\u0307]")
"""Letters that patterns match without regard to case, though they are different in
lower case: ı, ſ, and i̇ from İ."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern. In lower case, a match begins with one of `beginnings`, and contains
    one of `words`.

    Both are ("",) if that can be anything.
    """

    pattern: str
    beginnings: tuple[str, ...]
    words: tuple[str, ...]


def either(patterns: Sequence[str]) -> str:
    """A pattern that matches what the first of `patterns` matches that matches
    anything."""
    return "|".join(f"(?:{pattern})" for pattern in patterns) or NEVER


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """`pattern` without regard to case."""
    return re.compile(pattern, re.IGNORECASE)


def matches(kind: str, code: str, text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """The matches of the phrases of a kind at `start` of `text`, in the order of the
    phrases."""
    lowered = text.lower()
    phrases: Sequence[Phrase] = _phrases(kind, code)
    if not _has_odd_case(lowered):
        by_letter = _phrases_by_letter(kind, code)
        phrases = by_letter.get(lowered[start : start + 1], by_letter[""])
        phrases = [
            phrase for phrase in phrases if lowered.startswith(phrase.beginnings, start)
        ]
    for phrase in _contained(phrases, lowered):
        match = compiled(phrase.pattern).match(text, start)
        if match is not None:
            yield match


def full_match(kind: str, code: str, text: str) -> re.Match[str] | None:
    """The match of the first phrase of a kind that matches all of `text`."""
    for phrase in _contained(_phrases(kind, code), text.lower()):
        match = compiled(phrase.pattern).fullmatch(text)
        if match is not None:
            return match
    return None


def anywhere(kind: str, code: str, text: str) -> re.Pattern[str]:
    """A pattern that finds in `text` what all phrases of a kind would find together."""
    return compiled(
        either(
            [
                phrase.pattern
                for phrase in _contained(_phrases(kind, code), text.lower())
            ]
        )
    )


def contains_any(lowered: str, words: Sequence[str]) -> bool:
    """Whether one of `words` is in a text in lower case, or may be, as patterns see
    it."""
    return any(word in lowered for word in words) or _has_odd_case(lowered)


def _contained(phrases: Sequence[Phrase], lowered: str) -> Iterator[Phrase]:
    """Those of `phrases` that may be in a text in lower case."""
    has_odd_case = _has_odd_case(lowered)
    for phrase in phrases:
        for word in phrase.words:  # any() takes twice as long
            if word in lowered or has_odd_case:
                yield phrase
                break


def _has_odd_case(lowered: str) -> bool:
    return not lowered.isascii() and _ODD_CASE.search(lowered) is not None


@cache
def _phrases(kind: str, code: str) -> tuple[Phrase, ...]:
    """The phrases of a language, of English, since assistants use English phrases in
    all languages, and of all."""
    names = (SHARED,) if code == SHARED else tuple(dict.fromkeys((code, "en")))
    phrases: dict[str, Phrase] = {}
    for name in names:
        for pattern, needs in zip(
            filled_patterns(kind, name),
            _needs().get(name, {}).get(kind, ()),
            strict=True,
        ):
            beginnings, words = (tuple(texts.split("|")) for texts in needs)
            phrases.setdefault(pattern, Phrase(pattern, beginnings, words))
    return tuple(phrases.values())


@cache
def _phrases_by_letter(kind: str, code: str) -> Mapping[str, Sequence[Phrase]]:
    """The phrases that may begin with a letter, in order; by "", those that may begin
    with any."""
    phrases = _phrases(kind, code)
    letters = {
        beginning[:1] for phrase in phrases for beginning in phrase.beginnings
    } | {""}
    return {
        letter: [
            phrase
            for phrase in phrases
            if letter.startswith(tuple(text[:1] for text in phrase.beginnings))
        ]
        for letter in letters
    }


@cache
def _data() -> Mapping[str, Any]:
    return load_data("asides.json")


@cache
def _needs() -> Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]:
    return load_data("phrase_words.json")


def filled_patterns(kind: str, name: str) -> list[str]:
    """The patterns of a kind in asides.json for a language, and those of all, with the
    words that they name."""
    data = _data()
    if name not in data:
        return []
    words = data[SHARED]["words"] | data[name]["words"]
    patterns = list(data[name].get(kind, ()))
    if name != SHARED:
        patterns += data[SHARED].get(kind, ())
    return [_filled(pattern, words) for pattern in patterns]


def _filled(pattern: str, words: Mapping[str, str]) -> str:
    filled = _NAME.sub(lambda name: words[name[1]], pattern)
    return pattern if filled == pattern else _filled(filled, words)
