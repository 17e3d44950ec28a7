"""Phrases: patterns by language and kind, compiled only when a text may match them,
since most texts match none.

`phrases.json` has the patterns, each with the beginnings of texts that it matches at
their start, and words of which every match contains one; `scripts/phrases.py` writes
it. All are in lower case: patterns that ignore case take
three times as long to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ragstone.judge.offline.lexicon import load_data

SHARED = "shared"
"""The patterns that apply in every language stand under this name, beside the codes of
languages."""

_SIMPLE_LETTERS = str.maketrans("İıſ", "iis")

compiled = cache(re.compile)


def lowered(text: str) -> str:
    """`text` in lower case, with as many characters: to be searched for patterns."""
    return text.translate(_SIMPLE_LETTERS).lower()


def patterns(kind: str, code: str, text: str) -> Iterator[re.Pattern[str]]:
    """The patterns of a kind that `text`, in lower case, may match, in order."""
    for pattern, (beginnings, words) in _phrases(kind, code).items():
        if text.startswith(beginnings) and any(word in text for word in words):
            yield compiled(pattern)


def first_match(kind: str, code: str, text: str) -> re.Match[str] | None:
    """The match at its beginning of the first pattern of a kind that matches there."""
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
    """`text` without what the patterns of a kind match, one after the other."""
    for pattern in patterns(kind, code, lowered(text)):
        outside = []
        end = 0
        for match in pattern.finditer(lowered(text)):
            outside.append(text[end : match.start()])
            end = match.end()
        text = "".join([*outside, text[end:]])
    return text


@cache
def _phrases(kind: str, code: str) -> Mapping[str, Sequence[tuple[str, ...]]]:
    """The beginnings and words of each pattern of a language, and of English, since
    assistants use English phrases in all languages."""
    phrases: dict[str, Sequence[tuple[str, ...]]] = {}
    for name in (code,) if code == SHARED else (code, "en"):
        patterns_of_kind = load_data("phrases.json").get(name, {}).get(kind, {})
        for pattern, marks in patterns_of_kind.items():
            phrases[pattern] = list(map(tuple, marks))
    return phrases
