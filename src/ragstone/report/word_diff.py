"""What changed between two answers, word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from ragstone.report.escape import clip

_MAX_WORDS = 400
_AROUND = 4
"""Number of unchanged words that are kept at either end of an unchanged part."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive words that are in both answers, only in the one before (`gone`), or
    only in the one now (`new`)."""

    kind: Literal["same", "gone", "new"]
    text: str


def word_diff(before: str, now: str, limit: int) -> tuple[Piece, ...]:
    """The words of `before` and `now` in at most about `limit` characters; long
    unchanged parts are left out."""
    pieces: list[Piece] = []
    room = limit
    for piece in _pieces(before.split()[:_MAX_WORDS], now.split()[:_MAX_WORDS]):
        if room <= 0:
            return (*pieces, Piece("same", "…"))
        pieces.append(Piece(piece.kind, clip(piece.text, room)))
        room -= len(pieces[-1].text) + 1
    return tuple(pieces)


def _pieces(before: Sequence[str], now: Sequence[str]) -> Iterator[Piece]:
    for kind, start, end, new_start, new_end in SequenceMatcher(
        None, before, now, autojunk=False
    ).get_opcodes():
        removed = " ".join(before[start:end])
        new = " ".join(now[new_start:new_end])
        if kind == "equal":
            yield Piece("same", _shortened(before[start:end]))
            continue
        if removed:
            yield Piece("gone", removed)
        if new:
            yield Piece("new", new)


def _shortened(words: Sequence[str]) -> str:
    """Unchanged words without those in the middle of many."""
    if len(words) <= 3 * _AROUND:
        return " ".join(words)
    return " ".join([*words[:_AROUND], "…", *words[-_AROUND:]])
