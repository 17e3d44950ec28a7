"""Splits contexts that are longer than the model's window into parts, so that nothing
is cut off.

Contexts are packed in rank order, whole ones together while they fit. One that does not
fit alone is cut into pieces at a paragraph, else a sentence, else a space, and every
piece is judged under the id of its context. The parts are judged one by one, and
merging.py merges the replies: a statement is supported if one part supports it, and
contradicted if one part contradicts it and none supports it; a context is useful if one
of its pieces is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.judge.protocol import JudgementFailed

DEFAULT_WINDOW = 128_000
"""The window, in tokens, of a model whose window is not known."""
MAX_OUTPUT_TOKENS = 32_768
_USED_SHARE = 0.9
"""The share of the window that requests use, because their tokens are estimated."""
_RESTATED_FACTOR = 3
"""How many times as many tokens as a text its statements take at most."""
_WORD = re.compile(r"\w+")
_BYTES_PER_TOKEN = 3
"""Fewer than in any usual text: English has about four bytes per token."""
_MAX_BYTES_PER_CHARACTER = 4
_MIN_ROOM_TOKENS = 200
_MARKS_TOKENS = 20
"""Tokens of the marks around a context in a prompt."""
_BREAKS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"(?<=[.!?。！？])\s+"),
    re.compile(r"\s+"),
)
"""Where a text is cut: after a paragraph, else a sentence, else a word."""

Piece = tuple[str, str]
"""A context's id, and its text or a piece of it."""


def tokens_at_most(text: str) -> int:
    """A practical upper limit of the tokens in `text`."""
    return len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1


def tokens_at_least(text: str) -> int:
    """A practical lower limit of the tokens in `text`, whatever the tokenizer: three
    for four words."""
    return len(_WORD.findall(text)) * 3 // 4


def restated_tokens(text: str) -> int:
    """A practical upper limit of the tokens in the statements of `text`: each repeats
    names that the text has once."""
    return 64 + _RESTATED_FACTOR * tokens_at_most(text)


def thinking_tokens(window: int) -> int:
    """Output tokens reserved for the model's thoughts, which providers count as part of
    the reply."""
    return min(8_192, max(1_536, window // 8))


def room_for_data(
    window: int, static: str, output_tokens: int, fixed: Sequence[str]
) -> int:
    """The tokens left for contexts in a window of `window` tokens, besides the prompt's
    `static` part, the reply, and the `fixed` texts that every part needs.

    Raises JudgementFailed if that is too little.
    """
    used = tokens_at_most(static) + sum(map(tokens_at_most, fixed))
    room = int(window * _USED_SHARE) - output_tokens - used
    if room < _MIN_ROOM_TOKENS:
        raise JudgementFailed(
            f"the texts to judge are longer than the judge's window of {window:,} tokens; choose a model with a larger "
            "one, or correct judge.context_window"
        )
    return room


def pack_into_parts(contexts: Sequence[Piece], room: int) -> list[list[Piece]]:
    """`contexts` in order, packed greedily into parts of at most `room` tokens each,
    and cut into pieces where they must be."""
    parts: list[list[Piece]] = [[]]
    free_tokens = room
    for name, text in contexts:
        needed = tokens_at_most(text) + _MARKS_TOKENS
        if needed <= free_tokens:
            parts[-1].append((name, text))
            free_tokens -= needed
            continue
        for piece in cut_into_pieces(text, room - _MARKS_TOKENS):
            needed = tokens_at_most(piece) + _MARKS_TOKENS
            if needed > free_tokens and parts[-1]:
                parts.append([])
                free_tokens = room
            parts[-1].append((name, piece))
            free_tokens -= needed
    return parts


def cut_into_pieces(text: str, room: int) -> list[str]:
    """`text` in pieces of at most `room` tokens, cut at the best break available;
    together they are the whole text."""
    pieces: list[str] = []
    remainder = text
    while tokens_at_most(remainder) > room:
        # An ASCII character takes one byte. If there is any other, assume that all take
        # as many as a character can.
        max_characters = room * _BYTES_PER_TOKEN
        if not remainder[:max_characters].isascii():
            max_characters //= _MAX_BYTES_PER_CHARACTER
        # `tokens_at_most` counts one token more.
        max_characters = max(1, max_characters - _BYTES_PER_TOKEN)
        cut_position = max_characters
        for pattern in _BREAKS:
            # Not in the first half, which would make many small pieces.
            breaks = list(
                pattern.finditer(remainder[:max_characters], max_characters // 2)
            )
            if breaks:
                cut_position = breaks[-1].end()
                break
        pieces.append(remainder[:cut_position])
        remainder = remainder[cut_position:]
    pieces.append(remainder)
    return [piece for piece in pieces if piece]
