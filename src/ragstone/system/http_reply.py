"""Replies of services: JSON, server-sent events, JSON Lines, or text.

Bodies and pieces of streams have the names that every entrypoint may use, or the shapes
of OpenAI's chat completions, OpenAI's Responses, or LangServe. Anything else is read by
the paths of `Fields`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import httpx2

from ragstone.system.worker.fields import (
    EXPECTED,
    BadReturn,
    Fields,
    at_path,
    get,
    message_text,
    named,
)
from ragstone.system.worker.returns import Parts, parts_of
from ragstone.system.worker.wording import shown

EVENTS = "text/event-stream"
JSON_LINES = ("application/x-ndjson", "application/jsonl")
TEXTS = ("text/plain", "text/markdown")
ACCEPT = f"application/json, {EVENTS};q=0.9, {JSON_LINES[0]};q=0.8, {TEXTS[0]};q=0.7"

MAX_PIECES = 100_000
"""Pieces of a stream: more than a model writes tokens, and few enough to be read while
other questions wait."""
_MAX_SHOWN = 1_000
_DONE = "[DONE]"
"""The end of a stream from OpenAI's servers and many others."""

_END_EVENT = re.compile(rb"(?:\A|\n\n|\r\n\r\n)data: ?\[DONE\](?:\n\n|\r\n\r\n)")
_MAX_END_BYTES = 20

_TEXT_EVENTS = ("message", "data", "token")
"""Events whose data may be plain text: those without a name, LangServe's, and the usual
one for a token."""

_MESSAGE_TYPES = (None, "ai", "AIMessageChunk")
"""Types of JSON pieces whose text is the answer's: none, and LangServe's. Others may be
a status, or reasoning."""


class ReportedError(Exception):
    """The stream says that the service failed."""


async def read_reply(reply: httpx2.Response, fields: Fields) -> tuple[object, float]:
    """What is in the unread body of `reply`, the pieces of a stream joined, and when it
    was complete.

    Raises BadReturn, ReportedError, and httpx2's errors.
    """
    content_type = reply.headers.get("content-type", "").partition(";")[0]
    content_type = content_type.strip().lower()
    received = bytearray()
    async for chunk in reply.aiter_bytes():
        received += chunk
        if content_type == EVENTS and _has_end(received, len(chunk)):
            break  # the server may keep the connection open
    whole_at = perf_counter()
    body = bytes(received)
    if content_type == EVENTS:
        return _joined(_events(reply, body), fields), whole_at
    if content_type in JSON_LINES:
        return _joined(_lines(body), fields), whole_at
    return _whole_body(body, content_type, fields), whole_at


def _whole_body(body: bytes, content_type: str, fields: Fields) -> object:
    """The answer in a body that is no stream. Raises BadReturn."""
    text = body.decode("utf-8", "replace")
    is_text = content_type in TEXTS and text.strip() != ""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        if not is_text:
            raise BadReturn(
                f"Answered with {shown(text[:_MAX_SHOWN])}, which is not JSON. Text is an answer if its content type "
                f"is {TEXTS[0]}, and JSON Lines if it is {JSON_LINES[0]}; this is '{content_type[:80]}'."
            ) from None
        return text
    if is_text and not isinstance(value, str | list | dict):
        return text  # which happens to be a number, or true
    if fields.answer is not None or fields.contexts_only:
        return value
    return _usual_body(value)


def _has_end(body: bytearray, new: int) -> bool:
    """Whether a stream of events ends in the last `new` bytes of `body`."""
    start = max(0, len(body) - new - _MAX_END_BYTES)
    return _END_EVENT.search(body, start) is not None


def _events(reply: httpx2.Response, body: bytes) -> Iterator[tuple[str, str]]:
    """The name and the data of each server-sent event in `body` that has data."""
    # Events are UTF-8, whatever the reply says; some servers omit the empty line after
    # the last one. The size is bounded already.
    events = httpx2.Response(
        200,
        headers={"Content-Type": EVENTS},
        content=body + b"\n\n",
        request=reply.request,
    )
    for event in httpx2.EventSource(events, max_event_size=None):
        if event.data:
            yield event.event, event.data


def _lines(body: bytes) -> Iterator[tuple[str, str]]:
    """The lines that aren't blank, as events without a name; ended by line feeds alone,
    which JSON has none of."""
    for line in body.split(b"\n"):
        if line.strip():
            yield "message", line.decode("utf-8", "replace")


def _joined(events: Iterable[tuple[str, str]], fields: Fields) -> Parts:
    """The answer in the pieces of a stream, each the name and the data of an event.
    Steps are those of all pieces; of any other part, the last one counts.

    Raises BadReturn, also if there was no text, and ReportedError.
    """
    texts: list[str] = []
    whole = Parts()
    without_text: object = None
    for count, (event, data) in enumerate(events):
        if data == _DONE:
            break
        if count == MAX_PIECES:
            raise BadReturn(f"The stream has more than {MAX_PIECES:,} pieces.")
        value = _json_or_text(data)
        parts = _piece(event, value, fields)
        text = message_text(parts.pop("answer", None))
        if text:
            texts.append(text)
        elif text is None and not parts:
            without_text = value
        earlier, later = whole.get("steps"), parts.get("steps")
        if isinstance(earlier, list) and isinstance(later, list):
            earlier.extend(later)
            parts["steps"] = earlier
        whole.update(parts)
    if not texts and not fields.contexts_only:
        message = "The stream ended without text."
        if without_text is not None:
            message += f" One of its pieces: {shown(without_text)}."
        raise BadReturn(f"{message} {EXPECTED}")
    return Parts({**whole, "answer": "".join(texts)})


def _piece(event: str, value: object, fields: Fields) -> Parts:
    """The parts of an answer in the data of an event. Raises ReportedError."""
    if event == "error":
        raise ReportedError(shown(value))
    if isinstance(value, Mapping):
        _refuse_error(value)
        if fields.answer is None:
            return _usual_piece(value, fields)
        return Parts(parts_of(value, fields))
    if event in _TEXT_EVENTS and isinstance(value, str):
        return Parts(answer=value)
    return Parts()


def _json_or_text(data: str) -> object:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    # Text may happen to be a number, or true.
    return data if isinstance(value, int | float) else value


def _refuse_error(value: Mapping[str, object]) -> None:
    """Raise ReportedError for a piece that says that the service failed."""
    error = value.get("error")
    if value.get("type") in ("error", "response.failed"):
        raise ReportedError(shown(error or value.get("response") or value))
    if error and named(value, "answer") is None:
        raise ReportedError(shown(error))


def _usual_piece(value: Mapping[str, object], fields: Fields) -> Parts:
    """The parts of a piece without the text that isn't the answer's, by its type."""
    kind = value.get("type")
    if kind in (
        "response.output_text.delta",
        "response.refusal.delta",
    ):  # OpenAI's Responses
        return Parts(answer=value.get("delta"))
    delta = at_path(value, "choices.0.delta")
    if delta is not None and named(value, "answer") is None:
        # A chunk of a chat completion, which may have no text.
        value = {**value, "answer": get(delta, "content") or ""}
    if kind in _MESSAGE_TYPES:
        return Parts(parts_of(value, fields))
    whole: object = value
    if kind in ("response.completed", "response.incomplete"):
        whole = value.get("response")
    parts = Parts(parts_of(_usual_body(whole), fields))
    parts.pop("answer", None)
    return parts


def _usual_body(value: Any) -> object:
    """`value`, or the answer in it if it is a body of OpenAI's chat completions or
    Responses, or of LangServe."""
    output = get(value, "output")
    message = at_path(value, "choices.0.message")
    if message is not None:
        return {**value, "answer": message}
    if get(value, "object") == "response" and isinstance(output, list):
        return {**value, **_response_parts(output)}
    return value if named(output, "answer") is None else output


def _response_parts(output: Iterable[object]) -> dict[str, object]:
    """The answer in the output of OpenAI's Responses: the texts of messages, and what a
    search of files returned."""
    blocks: list[object] = []
    contexts = []
    for item in output:
        content = get(item, "content")
        if get(item, "type") == "message" and isinstance(content, list):
            blocks += content
        results = get(item, "results")
        if isinstance(results, list):
            contexts += [
                {"id": result.get("filename"), **result}
                for result in results
                if isinstance(result, Mapping)
            ]
    parts: dict[str, object] = {"answer": {"content": blocks} if blocks else ""}
    if contexts:
        parts["contexts"] = contexts
    return parts
