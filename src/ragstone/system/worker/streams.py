"""Streamed answers: the pieces of an iterator, joined to the parts of one answer.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

from typing import Any

from ragstone.system.worker.contexts import MAX_CONTEXTS
from ragstone.system.worker.fields import (
    EXPECTED,
    BadReturn,
    Fields,
    Json,
    at_path,
    get,
    message_text,
    named,
)
from ragstone.system.worker.returns import (
    MAX_ANSWER_CHARACTERS,
    Parts,
    is_pair,
    is_stream,
    parts_of,
)
from ragstone.system.worker.steps import joined_steps
from ragstone.system.worker.wording import shown


def finish(value: object, fields: Fields) -> Any:
    """The parts of a streamed answer, joined; any other value as it is. The result may
    be awaitable.

    Accepts generators, async generators and other iterators of pieces, alone or as the
    answer of a mapping, an object or a pair, and LlamaIndex's streaming responses
    (which have `response_gen`). `fields` are looked up in each piece. What a system
    yields that only retrieves are contexts.
    """
    if fields.contexts_only:
        return _contexts_of(value) if hasattr(type(value), "__anext__") else value
    parts = Parts()
    stream: Any = value
    if not is_stream(value):
        if not isinstance(value, str) and get(value, "response_gen") is not None:
            method = get(value, "get_response")
            if callable(method):
                return method()
        if is_pair(value):
            stream = value[0]  # type: ignore[index]
        elif fields.answer is not None:
            stream = at_path(value, fields.answer)
        else:
            stream = named(value, "answer")
        if not is_stream(stream):
            return value
        parts = parts_of(value, fields)
        fields = fields._replace(answer=None)  # the path has led to the stream
    pieces = Pieces(parts, fields)
    if hasattr(type(stream), "__anext__"):
        return _whole(stream, pieces)
    for item in stream:
        pieces.add(item)
    return pieces.whole()


async def _whole(stream: Any, pieces: Pieces) -> Parts:
    async for item in stream:
        pieces.add(item)
    return pieces.whole()


class Pieces:
    """Joins pieces of a streamed answer in order of arrival. Raises BadReturn for a bad
    piece.

    A piece is text, a chat message or chunk, or a mapping or object with a part of the
    answer or what comes with it. `parts` came beside the stream.
    """

    def __init__(self, parts: Json, fields: Fields) -> None:
        self._parts = Parts(parts)
        self._fields = fields
        self.texts: list[str] = []
        self._characters = 0
        self._count = 0

    def add(self, piece: object) -> None:
        """Add `piece`."""
        text, parts = read_piece(piece, self._fields)
        if text is None and not parts:
            raise BadReturn(
                f"Piece {self._count + 1} of the stream is {shown(piece)}, in which no text was found. {EXPECTED}"
            )
        self.add_parts(text, parts)

    def add_parts(self, text: str | None, parts: Json) -> None:
        """Add what `read_piece` read. Steps are those of all pieces; of any other part,
        the last one counts."""
        self._count += 1
        steps = joined_steps(self._parts.get("steps"), parts.get("steps"))
        self._parts.update(parts)
        if steps is not None:
            self._parts["steps"] = steps
        if not text:
            return
        self.texts.append(text)
        self._characters += len(text)
        if self._characters > MAX_ANSWER_CHARACTERS:
            raise BadReturn(
                f"The streamed answer has more than {MAX_ANSWER_CHARACTERS:,} characters."
            )

    def whole(self) -> Parts:
        """The answer. Raises BadReturn if nothing came."""
        if self._count == 0:
            raise BadReturn(f"The stream ended without a piece. {EXPECTED}")
        return Parts({**self._parts, "answer": "".join(self.texts)})


def read_piece(piece: object, fields: Fields) -> tuple[str | None, Parts]:
    """The text in a piece of a stream, and the other parts of an answer in it."""
    if isinstance(piece, str):
        return piece, Parts()
    parts = Parts(parts_of(piece, fields))
    text = message_text(parts.pop("answer", None))
    choices = get(piece, "choices")
    if text is None and fields.answer is None and isinstance(choices, list):
        # A chunk of a chat completion, which may have no text.
        delta = get(choices[0], "delta") if choices else None
        content = get(delta, "content")
        text = content if isinstance(content, str) else ""
    return text, parts


async def _contexts_of(stream: Any) -> list[object]:
    """The contexts that a system yields, one more than are allowed at most."""
    contexts = []
    async for item in stream:
        contexts.append(item)
        if len(contexts) > MAX_CONTEXTS:
            break
    return contexts
