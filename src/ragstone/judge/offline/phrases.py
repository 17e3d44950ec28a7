"""Phrases: patterns by language and kind, compiled only when a text may match them,
since most texts match none.

`phrases.json` has the patterns, each with words of which every match contains one;
`scripts/phrases.py` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ragstone.judge.offline.lexicon import load_data

SHARED = "shared"
"""The patterns that apply in every language stand under this name, beside the codes of
languages."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """`pattern` without regard to case."""
    return re.compile(pattern, re.IGNORECASE)


def patterns(kind: str, code: str, text: str) -> Iterator[re.Pattern[str]]:
    """The patterns of a kind that `text` may match, in order."""
    lowered = text.lower()
    for pattern, words in _phrases(kind, code).items():
        for word in words:  # any() takes twice as long
            if word in lowered:
                yield compiled(pattern)
                break


def first_match(kind: str, code: str, text: str) -> re.Match[str] | None:
    """The match at its beginning of the first pattern of a kind that matches there."""
    matches = (pattern.match(text) for pattern in patterns(kind, code, text))
    return next(filter(None, matches), None)


def full_match(kind: str, code: str, text: str) -> re.Match[str] | None:
    """The match of the first pattern of a kind that matches all of `text`."""
    matches = (pattern.fullmatch(text) for pattern in patterns(kind, code, text))
    return next(filter(None, matches), None)


@cache
def _phrases(kind: str, code: str) -> Mapping[str, Sequence[str]]:
    """The words of each pattern of a language, and of English, since assistants use
    English phrases in all languages."""
    phrases: dict[str, Sequence[str]] = {}
    for name in (code,) if code == SHARED else (code, "en"):
        phrases = phrases | load_data("phrases.json").get(name, {}).get(kind, {})
    return phrases
