"""What a sentence claims, without what answers say besides: citations, introductions,
hedges, greetings, offers, advice to ask elsewhere, and remarks on the contexts. The
patterns of each language, and those of all, are in asides.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.phrases import SHARED, anywhere, full_match, matches

_LONGEST_ASIDE = 240
"""A longer sentence is no greeting, so patterns are not applied to more than this."""

_LONGEST_SILENCE = 400
_LOOK_AT = 200
_OPENING_MARKS = "¡¿\"'(*- "
_MAX_TAKEN_OFF = 6
_BRACKETS = re.compile(r"(`[^`]+`)|\s*[(\[【]([^()\[\]【】]{1,160})[)\]】]")
_NUMBERED = re.compile(r"\d|\b[A-F]\b")
_LABEL = re.compile(r"[^:：.!?]{1,60}[:：]\s*")
_STOPS = frozenset(".!?")
_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")
_THOUGHTS = ("think", "thinking", "thought", "reasoning", "scratchpad", "reflection")
_WRAPPERS = ("final_answer", "answer", "response", "output", "result")
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
    statement = whole = _without_closing(without_citations(sentence).strip(), code)
    if (
        silence := full_match("silences", code, statement)
        if len(statement) <= _LONGEST_SILENCE
        else None
    ):
        statement = (
            statement
            if refuses(statement, code)
            else next(filter(None, silence.groups()))
        )
    for _ in range(_MAX_TAKEN_OFF):
        if is_aside(statement, code):
            return ""
        remainder = _without_opening(statement, code)
        if remainder == statement:
            break
        statement = remainder
    end = anywhere("ends", code, statement).search(
        statement, max(0, len(statement) - _LOOK_AT)
    )
    bare = statement[: end.start()] + statement[end.end() :] if end else statement
    if _NUMBERED.search(bare):
        bare = anywhere("mentions", code, bare).sub("", bare)
    return bare[:1].upper() + bare[1:] if statement != whole else bare


def bare_answer(text: str) -> str:
    """`text` without what a model thought aloud in tags, without the tags around the
    answer, and without links that stand for a source; `text` itself if nothing else is
    in it.
    """
    if "<" not in text and "](" not in text:
        return text
    answer = text
    for tag in _THOUGHTS:
        answer = "".join(_outside(answer, f"<{tag}>", f"</{tag}>"))
    for tag in _WRAPPERS:
        if f"<{tag}>" in answer and f"</{tag}>" in answer:
            answer = answer.replace(f"<{tag}>", "").replace(f"</{tag}>", "")
    answer = _NOTE_MARK.sub("", answer)
    return answer if answer.strip() else text


def _outside(text: str, begin: str, end: str) -> Iterator[str]:
    """The parts of `text` that are not between `begin` and `end`."""
    at = 0
    while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start)) >= 0:
        yield text[at:start]
        at = stop + len(end)
    yield text[at:]


def is_aside(sentence: str, code: str) -> bool:
    """Whether `sentence` as a whole claims nothing: a greeting, an offer, an
    announcement, a remark on the contexts."""
    if len(sentence) > _LONGEST_ASIDE:
        return False
    return (
        next(matches("asides", code, sentence.lstrip(_OPENING_MARKS)), None) is not None
    )


def lists_sources(text: str) -> bool:
    """Whether `text` is the heading of a list of sources, in any language."""
    return (
        len(text) < _LOOK_AT
        and full_match("source_lists", SHARED, text.strip()) is not None
    )


def without_citations(text: str) -> str:
    """`text` without references to contexts in brackets, in any language: "[2]",
    "(Passage 2, point 3)", "[doc_3]"."""

    def without_citation(bracket: re.Match[str]) -> str:
        inner = (bracket[2] or "").strip()
        if not inner:
            return bracket[0]
        if full_match("citations", SHARED, inner):
            return ""
        is_id = "[" in bracket[0] and full_match("ids", SHARED, inner)
        return "" if is_id else bracket[0]

    return _BRACKETS.sub(without_citation, text)


def _without_opening(sentence: str, code: str) -> str:
    head = sentence[:_LOOK_AT].lstrip(_OPENING_MARKS)
    skipped = len(sentence[:_LOOK_AT]) - len(head)
    label = _LABEL.match(head)
    for start in (0, label.end()) if label else (0,):
        for kind in ("openers", "introductions", "subjects", "hedges"):
            opening = next(matches(kind, code, head, start), None)
            if opening and opening.end() > start:
                return sentence[skipped + opening.end() :].lstrip()
    return sentence


def _without_closing(sentence: str, code: str) -> str:
    """`sentence` without closing phrases after what looks like an abbreviation: "works
    of art. I hope this helps!"."""
    if _STOPS.isdisjoint(sentence[:-1]):
        return sentence
    for boundary in reversed(list(_BREAK.finditer(sentence))):
        if not is_aside(sentence[boundary.end() :], code):
            break
        sentence = sentence[: boundary.start()].rstrip()
    return sentence
