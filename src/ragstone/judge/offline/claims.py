"""What a sentence claims, without what answers say besides: citations, introductions, hedges, greetings, offers, advice
to ask elsewhere, and remarks on the contexts. The patterns of each language are in asides.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ragstone.judge.offline.lexicon import load_data

_LONGEST_ASIDE = 240
"""A longer sentence is no greeting, so patterns are not applied to more than this."""

_LOOK_AT = 200
_OPENING_MARKS = "¡¿\"'(*- "
_MAX_TAKEN_OFF = 6
_NAME = re.compile(r"\{([a-z]\w*)\}")
_NEVER = "(?!)"
_OPENS = re.compile(r"[(\[【]")
_BRACKETS = re.compile(r"(`[^`]+`)|\s*[(\[【]([^()\[\]【】]{1,160})[)\]】]")
_NUMBERED = re.compile(r"\d|\b[A-F]\b")
_LABEL = re.compile(r"[^:：.!?]{1,60}[:：]\s*")
_STOPS = frozenset(".!?")
_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")


@dataclass(frozen=True, slots=True)
class _Patterns:
    """`opening` is removed from the start of a sentence, `end` from its end, `mention` anywhere; `aside` as a whole."""

    opening: re.Pattern[str]
    end: re.Pattern[str]
    aside: re.Pattern[str]
    mention: re.Pattern[str]


def claim(sentence: str, code: str) -> str:
    """`sentence` without sources, openings and hedges; empty when it claims nothing at all.

    "According to the manual, sales rose." gives "Sales rose."; "I hope this helps!" gives nothing.
    """
    found = _without_closing(without_citations(sentence).strip(), code)
    whole = found
    for _ in range(_MAX_TAKEN_OFF):
        if is_aside(found, code):
            return ""
        rest = _without_opening(found, code)
        if rest == found:
            break
        found = rest
    bare = _without_mentions(_without_end(found, code), code)
    return bare[:1].upper() + bare[1:] if found != whole else bare


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` as a whole claims nothing: a greeting, an offer, an announcement, a remark on the contexts."""
    if len(sentence) > _LONGEST_ASIDE:
        return False
    bare = sentence.lstrip(_OPENING_MARKS)
    return any(patterns.aside.match(bare) for patterns in _known(code))


def lists_sources(text: str) -> bool:
    """Whether `text` is the heading of a list of sources, in any language."""
    return len(text) < _LOOK_AT and _source_lists().fullmatch(text.strip()) is not None


def without_citations(text: str) -> str:
    """`text` without references to contexts in brackets, in any language: "[2]", "(Passage 2, point 3)"."""
    if not _OPENS.search(text):
        return text
    return _BRACKETS.sub(lambda found: "" if found[2] and _citations().fullmatch(found[2]) else found[0], text)


def _without_mentions(sentence: str, code: str) -> str:
    """`sentence` without references to numbered contexts in its midst: "as described in passage 2"."""
    if not _NUMBERED.search(sentence):
        return sentence
    for patterns in _known(code):
        sentence = patterns.mention.sub("", sentence)
    return sentence


def _without_opening(sentence: str, code: str) -> str:
    head = sentence[:_LOOK_AT].lstrip(_OPENING_MARKS)
    skipped = len(sentence[:_LOOK_AT]) - len(head)
    label = _LABEL.match(head)
    for start in (0, label.end()) if label else (0,):
        for patterns in _known(code):
            found = patterns.opening.match(head, start)
            if found and found.end() > start:
                return sentence[skipped + found.end() :].lstrip()
    return sentence


def _without_end(sentence: str, code: str) -> str:
    start = max(0, len(sentence) - _LOOK_AT)
    for patterns in _known(code):
        found = patterns.end.search(sentence, start)
        if found:
            return sentence[: found.start()] + sentence[found.end() :]
    return sentence


def _without_closing(sentence: str, code: str) -> str:
    """`sentence` without closing phrases after what looks like an abbreviation: "works of art. I hope this helps!"."""
    if _STOPS.isdisjoint(sentence[:-1]):
        return sentence
    for found in reversed(list(_BREAK.finditer(sentence))):
        if not is_aside(sentence[found.end() :], code):
            break
        sentence = sentence[: found.start()].rstrip()
    return sentence


@cache
def _known(code: str) -> tuple[_Patterns, ...]:
    """The patterns of a language plus those of English: assistants use English phrases in all languages."""
    return tuple(_patterns(name) for name in dict.fromkeys((code, "en")) if name in load_data("asides.json"))


@cache
def _patterns(code: str) -> _Patterns:
    greetings = "|".join(each for name in _languages() for each in _all(name, "greetings"))
    foreign = [pattern for name in _languages() for pattern in _all(name, "introductions", "shared")]
    openings = [each for kind in ("openers", "introductions", "subjects", "hedges") for each in _all(code, kind)]
    return _Patterns(
        opening=_any_of([*openings, *foreign, rf"(?:{greetings})\s?(?:[,!.:;，！。、]|-+)\s*"]),
        end=_any_of(_all(code, "ends") or [_NEVER]),
        aside=_any_of([*_all(code, "asides"), rf"(?:{greetings})\W*$"]),
        mention=_any_of(_all(code, "mentions") or [_NEVER]),
    )


@cache
def _citations() -> re.Pattern[str]:
    return _any_of([*dict.fromkeys(each for name in _languages() for each in _all(name, "citations"))])


@cache
def _source_lists() -> re.Pattern[str]:
    return _any_of([rf"(?:{each})\s*[:：]?" for name in _languages() for each in _all(name, "source_lists")])


def _languages() -> list[str]:
    return [name for name in load_data("asides.json") if name != "shared"]


def _all(code: str, kind: str, *only: str) -> list[str]:
    """The patterns of this kind for a language, or those that are shared `only`, with its words put in."""
    data = load_data("asides.json")
    words = {**data["shared"]["words"], **data[code]["words"]}
    return [_filled(pattern, words) for name in only or ("shared", code) for pattern in data[name].get(kind, ())]


def _filled(pattern: str, words: Mapping[str, str]) -> str:
    while (found := _NAME.sub(lambda name: words[name[1]], pattern)) != pattern:
        pattern = found
    return pattern


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)
