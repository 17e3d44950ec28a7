"""What changed between two answers, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_MAX_WORDS = 400
_AROUND = 4
"""Number of unchanged words that are kept on either side of a change."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive words that are in both answers, only in the one before (`gone`), or only in the one now (`new`)."""

    kind: Literal["same", "gone", "new"]
    text: str


def word_diff(before: str, now: str, limit: int) -> tuple[Piece, ...]:
    """The words of `before` and `now` in at most about `limit` characters; long unchanged parts are left out."""
    found: list[Piece] = []
    left = limit
    for piece in _pieces(before.split()[:_MAX_WORDS], now.split()[:_MAX_WORDS]):
        if left <= 0:
            return (*found, Piece("same", "…"))
        text = piece.text if len(piece.text) <= left else piece.text[: max(1, left - 1)].rstrip() + "…"
        found.append(Piece(piece.kind, text))
        left -= len(text) + 1
    return tuple(found)


def _pieces(before: list[str], now: list[str]) -> Iterator[Piece]:
    changes = SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
    for index, (kind, i, j, k, m) in enumerate(changes):
        if kind == "equal":
            yield Piece("same", _shortened(before[i:j], first=index == 0, last=index == len(changes) - 1))
            continue
        if i < j:
            yield Piece("gone", " ".join(before[i:j]))
        if k < m:
            yield Piece("new", " ".join(now[k:m]))


def _shortened(words: list[str], *, first: bool, last: bool) -> str:
    """The words next to a change."""
    head, tail = (0 if first and not last else _AROUND), (0 if last and not first else _AROUND)
    if len(words) <= head + tail + _AROUND:
        return " ".join(words)
    return " ".join([*words[:head], "…", *words[len(words) - tail :]])
