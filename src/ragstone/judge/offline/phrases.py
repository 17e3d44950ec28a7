"""Phrases: patterns by language and kind, compiled only when a text may match them,
since most texts match none.

`phrases.json`, which `scripts/phrases.py` writes, has the patterns, each with two
lists: the beginnings of the texts that it can match, and words of which every match
contains one. All are in lower case, since patterns that ignore case take three times as
long to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct

from ragstone.judge.offline.lexicon import load_data

SHARED = "shared"
"""The name, beside the codes of languages, of the patterns that apply in every
language."""

# Letters that `str.lower` makes longer or keeps, though they ignore case in patterns.
_SIMPLE_LETTERS = str.maketrans("İıſ", "iis")

compile_pattern = cache(re.compile)


def lowered(text: str) -> str:
    """`text` in lower case, for patterns. It has as many characters as before, so that
    matches are at the same places in both."""
    return text.translate(_SIMPLE_LETTERS).lower()


def patterns(kind: str, code: str, text: str) -> Iterator[re.Pattern[str]]:
    """The patterns of a kind that `text`, in lower case, may match, in order."""
    for pattern, hints in _hints_by_pattern(kind, code).items():
        may_match = text.startswith(hints.beginnings)
        if may_match and any(word in text for word in hints.words):
            yield compile_pattern(pattern)


def first_match(kind: str, code: str, text: str) -> re.Match[str] | None:
    """The match at the beginning of `text` of the first pattern of a kind that matches
    there; None if none does."""
    text = lowered(text)
    matches = (pattern.match(text) for pattern in patterns(kind, code, text))
    return next(filter(None, matches), None)


def matches_whole(kind: str, code: str, text: str) -> bool:
    """Whether a pattern of a kind matches all of `text`."""
    text = lowered(text)
    return any(pattern.fullmatch(text) for pattern in patterns(kind, code, text))


def has_phrase(kind: str, code: str, text: str) -> bool:
    """Whether a pattern of a kind matches somewhere in `text`."""
    text = lowered(text)
    return any(pattern.search(text) for pattern in patterns(kind, code, text))


def without_phrases(kind: str, code: str, text: str) -> str:
    """`text` without the matches of each pattern of a kind, in order."""
    for pattern in patterns(kind, code, lowered(text)):
        outside = []
        end = 0
        for match in pattern.finditer(lowered(text)):
            outside.append(text[end : match.start()])
            end = match.end()
        text = "".join([*outside, text[end:]])
    return text


class _Hints(Struct, frozen=True):
    """Which texts a pattern may match; an empty string stands for all texts."""

    beginnings: tuple[str, ...]
    words: tuple[str, ...]


@cache
def _hints_by_pattern(kind: str, code: str) -> Mapping[str, _Hints]:
    """The patterns of a kind in a language and in English, since assistants use English
    phrases in all languages."""
    hints_by_pattern: dict[str, _Hints] = {}
    for name in (code,) if code == SHARED else (code, "en"):
        patterns_of_kind = load_data("phrases.json").get(name, {}).get(kind, {})
        for pattern, (beginnings, words) in patterns_of_kind.items():
            hints_by_pattern[pattern] = _Hints(tuple(beginnings), tuple(words))
    return hints_by_pattern
