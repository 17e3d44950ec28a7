"""What a sentence claims, without the other parts of answers: citations, introductions,
hedges, greetings, offers, advice to ask elsewhere, and remarks on the contexts. The
patterns of each language, and those of all languages, are in phrases.json.
"""

from __future__ import annotations

import re

from ragstone.judge.offline.phrases import (
    SHARED,
    first_match,
    matches_whole,
    without_phrases,
)

_MAX_ASIDE_CHARACTERS = 240
"""A longer sentence is no aside."""
_MAX_OPENING_CHARACTERS = 200
"""Openings are looked for only at the beginning of a sentence, since patterns take
time."""
_MAX_HEADING_CHARACTERS = 200
_MAX_OPENINGS = 6
"""No more openings than this are removed from a sentence."""
_OPENING_MARKS = "¡¿\"'(*- "
# Code in backticks, or the second group in brackets.
_BRACKETS = re.compile(r"(`[^`]+`)|\s*[(\[【]([^()\[\]【】]{1,160})[)\]】]")
# What contexts are named by: "passage 2", "document B".
_NUMBER_OR_LETTER = re.compile(r"\d|\b[A-F]\b")
_THOUGHT_TAGS = ("think", "thinking", "thought", "reasoning")
_ANSWER_TAG = re.compile(r"</?(?:final_answer|answer|response|output)>")
_SOURCE_MARK = re.compile(
    r"<sup>\s*\[?\d{1,3}\]?\s*</sup>"
    r"| ?<(?P<tag>cite|citation|ref|source)\b[^<>]{0,100}>[^<\s]{0,60}</(?P=tag)>"
    r"| ?\(\[[^\]\s\d]{1,30}(?: [^\]\s\d]{1,30}){0,3}\]\([^()\s]{1,300}\)\)"
    r"| ?\[\[?\d{1,3}\]?\]\([^()\s]{1,300}\)"
)
"""The number of a footnote, a source in a tag, or a link to a source:
"([handbook](https://…))", "[1](https://…)"."""


def claim(sentence: str, code: str) -> str:
    """`sentence` without sources, openings and hedges; empty if it claims nothing.

    "According to the manual, sales rose." gives "Sales rose."; "I hope this helps!"
    gives nothing.
    """
    full_sentence = without_citations(sentence).strip()
    statement = full_sentence
    for _ in range(_MAX_OPENINGS):
        if is_aside(statement, code):
            return ""
        text = statement.lstrip(_OPENING_MARKS)
        opening = first_match("openings", code, text[:_MAX_OPENING_CHARACTERS])
        if opening is None or not opening.end():
            break
        statement = text[opening.end() :].lstrip()
    claimed = without_phrases("ends", code, statement)
    # Mentions name a context: "as passage 2 says".
    if _NUMBER_OR_LETTER.search(claimed):
        claimed = without_phrases("mentions", code, claimed)
    if statement == full_sentence:
        return claimed
    return claimed[:1].upper() + claimed[1:]


def without_thoughts(text: str) -> str:
    """`text` without the thoughts of a model in tags, the tags around the answer, and
    links to sources; `text` itself if nothing else is in it."""
    # Most texts have neither tags nor links.
    if "<" not in text and "](" not in text:
        return text
    answer = text
    for tag in _THOUGHT_TAGS:
        answer = _outside(answer, f"<{tag}>", f"</{tag}>")
    answer = _ANSWER_TAG.sub("", answer)
    answer = _SOURCE_MARK.sub("", answer)
    return answer if answer.strip() else text


def _outside(text: str, begin: str, end: str) -> str:
    """`text` without `begin`, `end` and what is between them, in linear time."""
    first, *parts = text.split(begin)
    outside = [first]
    for part in parts:
        _, closing, after = part.partition(end)
        outside.append(after if closing else begin + part)
    return "".join(outside)


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` is an aside, which claims nothing: a greeting, an offer, an
    announcement, a remark on the contexts."""
    if len(sentence) > _MAX_ASIDE_CHARACTERS:
        return False
    return first_match("asides", code, sentence.lstrip(_OPENING_MARKS)) is not None


def lists_sources(text: str) -> bool:
    """Whether `text` is the heading of a list of sources, in any language."""
    is_short = len(text) < _MAX_HEADING_CHARACTERS
    return is_short and matches_whole("source_lists", SHARED, text.strip())


def without_citations(text: str) -> str:
    """`text` without citations of contexts in brackets, in any language: "[2]",
    "(Passage 2, point 3)", "[doc_3]"."""
    return _BRACKETS.sub(_without_citation, text)


def _without_citation(bracket: re.Match[str]) -> str:
    """The match of _BRACKETS, or nothing if it is a citation. Code in backticks, which
    the pattern matches too, stays."""
    inner = (bracket[2] or "").strip()
    if inner and matches_whole("citations", SHARED, inner):
        return ""
    if "[" in bracket[0] and matches_whole("ids", SHARED, inner):
        return ""
    return bracket[0]
