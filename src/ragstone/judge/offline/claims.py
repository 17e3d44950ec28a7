"""What a sentence claims, without what answers say besides: citations, introductions,
hedges, greetings, offers, advice to ask elsewhere, and remarks on the contexts. The
patterns of each language, and those of all, are in asides.json.
"""

from __future__ import annotations

import re

from ragstone.judge.offline.phrases import (
    SHARED,
    first_match,
    matches_whole,
    without_phrases,
)

_LONGEST_ASIDE = 240
"""A longer sentence is no greeting, so patterns are not applied to more than this."""

_LOOK_AT = 200
_OPENING_MARKS = "¡¿\"'(*- "
_MAX_TAKEN_OFF = 6
_BRACKETS = re.compile(r"(`[^`]+`)|\s*[(\[【]([^()\[\]【】]{1,160})[)\]】]")
_NUMBERED = re.compile(r"\d|\b[A-F]\b")
_THOUGHTS = ("think", "thinking", "thought", "reasoning")
_WRAPPER = re.compile(r"</?(?:final_answer|answer|response|output)>")
_NOTE_MARK = re.compile(
    r"<sup>\s*\[?\d{1,3}\]?\s*</sup>"
    r"| ?<(?P<tag>cite|citation|ref|source)\b[^<>]{0,100}>[^<\s]{0,60}</(?P=tag)>"
    r"| ?\(\[[^\]\s\d]{1,30}(?: [^\]\s\d]{1,30}){0,3}\]\([^()\s]{1,300}\)\)"
    r"| ?\[\[?\d{1,3}\]?\]\([^()\s]{1,300}\)"
)
"""A footnote's number, a source in a tag, and a link that stands for one:
"([handbook](https://…))", "[1](https://…)"."""


def claim(sentence: str, code: str) -> str:
    """`sentence` without sources, openings and hedges; empty when it claims nothing at
    all.

    "According to the manual, sales rose." gives "Sales rose."; "I hope this helps!"
    gives nothing.
    """
    statement = whole = without_citations(sentence).strip()
    for _ in range(_MAX_TAKEN_OFF):
        if is_aside(statement, code):
            return ""
        text = statement.lstrip(_OPENING_MARKS)
        opening = first_match("openings", code, text[:_LOOK_AT])
        if opening is None or not opening.end():
            break
        statement = text[opening.end() :].lstrip()
    bare = without_phrases("ends", code, statement)
    if _NUMBERED.search(bare):
        bare = without_phrases("mentions", code, bare)
    return bare if statement == whole else bare[:1].upper() + bare[1:]


def without_thoughts(text: str) -> str:
    """`text` without what a model thought aloud in tags, without the tags around the
    answer, and without links that stand for a source; `text` itself if nothing else is
    in it.
    """
    if "<" not in text and "](" not in text:
        return text
    answer = text
    for tag in _THOUGHTS:
        answer = _outside(answer, f"<{tag}>", f"</{tag}>")
    answer = _WRAPPER.sub("", answer)
    answer = _NOTE_MARK.sub("", answer)
    return answer if answer.strip() else text


def _outside(text: str, begin: str, end: str) -> str:
    """`text` without what is between `begin` and `end`, in linear time."""
    first, *parts = text.split(begin)
    outside = [first]
    for part in parts:
        _, closing, after = part.partition(end)
        outside.append(after if closing else begin + part)
    return "".join(outside)


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` as a whole claims nothing: a greeting, an offer, an
    announcement, a remark on the contexts."""
    if len(sentence) > _LONGEST_ASIDE:
        return False
    return first_match("asides", code, sentence.lstrip(_OPENING_MARKS)) is not None


def lists_sources(text: str) -> bool:
    """Whether `text` is the heading of a list of sources, in any language."""
    is_short = len(text) < _LOOK_AT
    return is_short and matches_whole("source_lists", SHARED, text.strip())


def without_citations(text: str) -> str:
    """`text` without references to contexts in brackets, in any language: "[2]",
    "(Passage 2, point 3)", "[doc_3]"."""
    return _BRACKETS.sub(_without_citation, text)


def _without_citation(bracket: re.Match[str]) -> str:
    inner = (bracket[2] or "").strip()
    if inner and matches_whole("citations", SHARED, inner):
        return ""
    if "[" in bracket[0] and matches_whole("ids", SHARED, inner):
        return ""
    return bracket[0]
