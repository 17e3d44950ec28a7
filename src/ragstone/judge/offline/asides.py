"""Finds what an answer contains besides its claims: greetings, offers of help, sources, hedges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ragstone.judge.offline.lexicon import load_data

_LONGEST_ASIDE = 200
"""A longer sentence is no greeting, so patterns are not applied to more than this."""

_LOOK_AT = 160
_OPENING_MARKS = "¡¿\"'(*- "
_MAX_TAKEN_OFF = 4


@dataclass(frozen=True, slots=True)
class _Patterns:
    """`opening` is removed from the start of a sentence, `source` from its end; an `aside` is dropped as a whole."""

    opening: re.Pattern[str]
    source: re.Pattern[str] | None
    aside: re.Pattern[str]


def claim(sentence: str, code: str) -> str:
    """`sentence` without sources, openings and hedges; empty when it claims nothing at all.

    "According to the manual, sales rose." gives "Sales rose."; "I hope this helps!" gives nothing.
    """
    found = sentence
    for _ in range(_MAX_TAKEN_OFF):
        if is_aside(found, code):
            return ""
        rest = _without_opening(found, code)
        if rest == found:
            break
        found = rest
    return _capitalised(_without_source(found, code)) if found != sentence else _without_source(sentence, code)


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` as a whole is a greeting, thanks, an offer of help, or a list of sources."""
    if len(sentence) > _LONGEST_ASIDE:
        return False
    bare = sentence.lstrip(_OPENING_MARKS)
    return any(patterns.aside.match(bare) for patterns in _known(code))


def _without_opening(sentence: str, code: str) -> str:
    head = sentence[:_LOOK_AT].lstrip(_OPENING_MARKS)
    skipped = len(sentence[:_LOOK_AT]) - len(head)
    for patterns in _known(code):
        found = patterns.opening.match(head)
        if found and found.end():
            return sentence[skipped + found.end() :].lstrip()
    return sentence


def _without_source(sentence: str, code: str) -> str:
    start = max(0, len(sentence) - _LOOK_AT)
    tail = sentence[start:]
    for patterns in _known(code):
        found = patterns.source.search(tail) if patterns.source else None
        if found:
            return sentence[: start + found.start()] + sentence[start + found.end() :]
    return sentence


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _known(code: str) -> tuple[_Patterns, ...]:
    """The patterns of a language plus those of English: assistants use English phrases in all languages."""
    return tuple(found for name in dict.fromkeys((code, "en")) if (found := _patterns(name)))


@cache
def _patterns(code: str) -> _Patterns | None:
    lists = load_data("asides.json").get(code)
    if lists is None:
        return None
    openings = [*lists["openers"], *lists["attributions"], *lists["hedges"]]
    return _Patterns(
        opening=_any_of(openings),
        source=_any_of(lists["sources"]) if lists["sources"] else None,
        aside=re.compile(rf"(?:{_any_of(lists['asides']).pattern})", re.IGNORECASE),
    )


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)
