"""What changed between two answers, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

from msgspec import Struct

from ragstone.report.escape import clip

_MAX_WORDS = 400
_AROUND = 4
"""Number of unchanged words that are kept at either end of an unchanged part."""


class Piece(Struct, frozen=True):
    """Consecutive words that are in both answers, only in the one before (`gone`), or
    only in the one now (`new`)."""

    kind: Literal["same", "gone", "new"]
    text: str


def word_diff(before: str, now: str, limit: int) -> tuple[Piece, ...]:
    """The words of `before` and `now` in at most about `limit` characters; long
    unchanged parts are left out."""
    old = before.split()[:_MAX_WORDS]
    new = now.split()[:_MAX_WORDS]
    shown: list[Piece] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        old_words = old[start:end]
        new_words = new[new_start:new_end]
        pieces = [
            Piece("gone", " ".join(old_words)),
            Piece("new", " ".join(new_words)),
        ]
        if kind == "equal":
            pieces = [Piece("same", _shortened(old_words))]
        for piece in pieces:
            if limit <= 0:
                return (*shown, Piece("same", "…"))
            if piece.text:
                shown.append(Piece(piece.kind, clip(piece.text, limit)))
                limit -= len(shown[-1].text) + 1
    return tuple(shown)


def _shortened(words: Sequence[str]) -> str:
    """Unchanged words without those in the middle of many."""
    if len(words) <= 3 * _AROUND:
        return " ".join(words)
    beginning = words[:_AROUND]
    end = words[-_AROUND:]
    return " ".join([*beginning, "…", *end])
