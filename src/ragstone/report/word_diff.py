"""Compares two answers word by word."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

from msgspec import Struct

from ragstone.report.escape import clip

_MAX_WORDS = 400
"""Maximum number of words of an answer that are compared: the time grows with their
square."""

_KEPT_WORDS = 4
"""Number of words that are kept at each end of a long unchanged part."""


class Piece(Struct, frozen=True):
    """Consecutive words that are in one answer or both."""

    kind: Literal["same", "gone", "new"]
    """In both answers, only in the baseline's, or only in the current one."""
    text: str


def word_diff(baseline_answer: str, answer: str, limit: int) -> tuple[Piece, ...]:
    """Return the words of both answers in at most about `limit` characters; long
    unchanged parts are left out."""
    baseline_words = baseline_answer.split()[:_MAX_WORDS]
    words = answer.split()[:_MAX_WORDS]
    pieces: list[Piece] = []
    matcher = SequenceMatcher(None, baseline_words, words, autojunk=False)
    for change, baseline_start, baseline_end, start, end in matcher.get_opcodes():
        gone_words = baseline_words[baseline_start:baseline_end]
        new_words = words[start:end]
        candidates = [
            Piece("gone", " ".join(gone_words)),
            Piece("new", " ".join(new_words)),
        ]
        if change == "equal":
            candidates = [Piece("same", _shorten(new_words))]
        for piece in candidates:
            if limit <= 0:
                return (*pieces, Piece("same", "…"))
            if piece.text:
                text = clip(piece.text, limit)
                pieces.append(Piece(piece.kind, text))
                limit -= len(text) + 1
    return tuple(pieces)


def _shorten(words: Sequence[str]) -> str:
    """Join unchanged words, without those in the middle if there are many."""
    if len(words) <= 3 * _KEPT_WORDS:
        return " ".join(words)
    beginning = words[:_KEPT_WORDS]
    end = words[-_KEPT_WORDS:]
    return " ".join([*beginning, "…", *end])
