"""The rule for contexts longer than the model's window: they are judged in parts that
are merged, never cut off.

Contexts are packed in rank order, whole ones together while they fit. One that does not
fit alone is cut into pieces at a paragraph, else a sentence, else a space, and every
piece is judged under the id of its context. A statement is supported if one part
supports it, and contradicted if one part contradicts it and none supports it. A context
is useful if one of its pieces is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.judge.protocol import JudgementFailed

DEFAULT_WINDOW = 128_000
MAX_OUTPUT_TOKENS = 32_768
_MARGIN = 0.9
_RESTATED = 3
_WORD = re.compile(r"\w+")
_MIN_ROOM = 200
_BREAKS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"(?<=[.!?。！？])\s+"),
    re.compile(r"\s+"),
)

Piece = tuple[str, str]
"""A context's id, and its text or a piece of it."""


def tokens_at_most(text: str) -> int:
    """A practical upper limit of the tokens in `text`: a third of its UTF-8 bytes
    (English has a quarter)."""
    return len(text.encode("utf-8", "replace")) // 3 + 1


def tokens_at_least(text: str) -> int:
    """A practical lower limit of the tokens in `text`: three per four words, whatever
    the tokenizer."""
    return len(_WORD.findall(text)) * 3 // 4


def restated_tokens(text: str) -> int:
    """A practical upper limit of the tokens in the statements of `text`: they repeat
    what the text names once."""
    return 64 + _RESTATED * tokens_at_most(text)


def thinking_tokens(window: int) -> int:
    """Output tokens reserved for thinking before the reply: providers count both
    together."""
    return min(8_192, max(1_536, window // 8))


def room_for_data(
    window: int, static: str, output_tokens: int, fixed: Sequence[str]
) -> int:
    """Tokens left for contexts in a window of `window` tokens.

    Raises JudgementFailed if the texts that every part needs leave no room.
    """
    used = tokens_at_most(static) + sum(map(tokens_at_most, fixed))
    room = int(window * _MARGIN) - output_tokens - used
    if room < _MIN_ROOM:
        raise JudgementFailed(
            f"the texts to judge are longer than the judge's window of {window:,} tokens"
        )
    return room


def parts_of(pieces: Sequence[Piece], room: int) -> list[list[Piece]]:
    """`pieces` in order, packed greedily into few parts of at most `room` tokens
    each."""
    parts: list[list[Piece]] = [[]]
    space = room
    for name, text in pieces:
        needed = tokens_at_most(text) + 20
        if needed <= space:
            parts[-1].append((name, text))
            space -= needed
            continue
        for piece in cut(text, room - 20):
            needed = tokens_at_most(piece) + 20
            if needed > space and parts[-1]:
                parts.append([])
                space = room
            parts[-1].append((name, piece))
            space -= needed
    return parts


def cut(text: str, room: int) -> list[str]:
    """`text` in pieces of at most `room` tokens, cut at the best break available;
    together they are the whole text."""
    pieces: list[str] = []
    remainder = text
    while tokens_at_most(remainder) > room:
        # A third of the bytes: that many characters surely fit, and three times as many
        # if all are ASCII.
        most = room * 3
        if not remainder[:most].isascii():
            most = max(1, most // 4)
        at = most = max(1, most - 3)
        for pattern in _BREAKS:
            breaks = list(pattern.finditer(remainder[:most], most // 2))
            if breaks:
                at = breaks[-1].end()
                break
        pieces.append(remainder[:at])
        remainder = remainder[at:]
    pieces.append(remainder)
    return [piece for piece in pieces if piece]
