"""Replies of services: JSON, server-sent events, JSON Lines, or text.

A body, or a piece of a stream, can have the field names that are read from every
entrypoint, or the shape of OpenAI's chat completions, OpenAI's Responses API, or
LangServe. Replies of any other shape need the paths in `Fields`.
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
    field_of_part,
    field_value,
    message_text,
)
from ragstone.system.worker.returns import Parts, parts_of
from ragstone.system.worker.wording import shown

EVENTS = "text/event-stream"
JSON_LINES = ("application/x-ndjson", "application/jsonl")
PLAIN_TEXT = ("text/plain", "text/markdown")
ACCEPT = (
    f"application/json, {EVENTS};q=0.9, {JSON_LINES[0]};q=0.8, {PLAIN_TEXT[0]};q=0.7"
)

MAX_PIECES = 100_000
"""Pieces of a stream: more than the tokens of any answer of a model, and few enough to
be read while other questions wait."""
_MAX_SHOWN_CHARACTERS = 1_000
# The data of the last event in streams of OpenAI's servers and many others.
_DONE = "[DONE]"

_END_EVENT = re.compile(rb"(?:\A|\n\n|\r\n\r\n)data: ?\[DONE\](?:\n\n|\r\n\r\n)")
# The length of the longest match of _END_EVENT.
_MAX_END_EVENT_BYTES = 20

# Names of events whose data may be plain text: the default name, LangServe's, and the
# usual one for a token.
_TEXT_EVENTS = ("message", "data", "token")

# Values of `type` in JSON pieces whose text belongs to the answer: no type, and
# LangServe's. The text of other types may be a status, or reasoning.
_MESSAGE_TYPES = (None, "ai", "AIMessageChunk")


class ReportedError(Exception):
    """The stream says that the service failed."""


async def read_reply(reply: httpx2.Response, fields: Fields) -> tuple[object, float]:
    """Read the body of `reply`, and join the pieces of a stream. Returns the value, and
    the time by perf_counter() at which the body was complete.

    Raises BadReturn, ReportedError, and httpx2's errors.
    """
    content_type = reply.headers.get("content-type", "").partition(";")[0]
    content_type = content_type.strip().lower()
    received = bytearray()
    async for chunk in reply.aiter_bytes():
        received += chunk
        if content_type == EVENTS and _has_end_event(received, len(chunk)):
            break  # the server may keep the connection open
    completed_s = perf_counter()
    body = bytes(received)
    if content_type == EVENTS:
        return _join(_events(reply, body), fields), completed_s
    if content_type in JSON_LINES:
        return _join(_lines(body), fields), completed_s
    return _single_value(body, content_type, fields), completed_s


def _single_value(body: bytes, content_type: str, fields: Fields) -> object:
    """Read a body that is no stream. Raises BadReturn."""
    text = body.decode("utf-8", "replace")
    is_text = content_type in PLAIN_TEXT and text.strip() != ""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        if not is_text:
            raise BadReturn(
                f"Answered with {shown(text[:_MAX_SHOWN_CHARACTERS])}, which is not JSON. Text is read as an answer if "
                f"its content type is {PLAIN_TEXT[0]}, and as JSON Lines if it is {JSON_LINES[0]}; this is "
                f"'{content_type[:80]}'."
            ) from None
        return text
    if is_text and not isinstance(value, str | list | dict):
        return text  # an answer such as "42" or "true", which is JSON by chance
    if fields.answer is not None or fields.contexts_only:
        return value
    return _usual_body(value)


def _has_end_event(body: bytearray, new_bytes: int) -> bool:
    """Whether the last event of a stream is complete with the last `new_bytes` of
    `body`."""
    start = max(0, len(body) - new_bytes - _MAX_END_EVENT_BYTES)
    return _END_EVENT.search(body, start) is not None


def _events(reply: httpx2.Response, body: bytes) -> Iterator[tuple[str, str]]:
    """The name and the data of each server-sent event in `body` that has data."""
    # A new response without a charset, since events are UTF-8 whatever the reply says.
    # Some servers omit the empty line after the last event.
    events = httpx2.Response(
        200,
        headers={"Content-Type": EVENTS},
        content=body + b"\n\n",
        request=reply.request,
    )
    # `bound_reply` bounds the size of the body, and so of each event.
    for event in httpx2.EventSource(events, max_event_size=None):
        if event.data:
            yield event.event, event.data


def _lines(body: bytes) -> Iterator[tuple[str, str]]:
    """The lines of JSON Lines that aren't blank, as events with the default name.

    Lines end at line feeds only: str.splitlines() would also split at characters that
    may stand inside a string of JSON.
    """
    for line in body.split(b"\n"):
        if line.strip():
            yield "message", line.decode("utf-8", "replace")


def _join(events: Iterable[tuple[str, str]], fields: Fields) -> Parts:
    """Join the pieces of a stream, each the name and the data of an event, to the parts
    of one answer.

    Texts and steps of all pieces are joined; of any other part, the last one counts.
    Raises BadReturn, also if there was no text, and ReportedError.
    """
    texts: list[str] = []
    joined = Parts()
    # The last piece in which nothing was found, for the error.
    unread: object = None
    for index, (event_name, data) in enumerate(events):
        if data == _DONE:
            break
        if index == MAX_PIECES:
            raise BadReturn(f"The stream has more than {MAX_PIECES:,} pieces.")
        value = _json_or_text(data)
        parts = _piece_parts(event_name, value, fields)
        text = message_text(parts.pop("answer", None))
        if text:
            texts.append(text)
        elif text is None and not parts:
            unread = value
        earlier_steps = joined.get("steps")
        steps = parts.get("steps")
        if isinstance(earlier_steps, list) and isinstance(steps, list):
            earlier_steps.extend(steps)
            parts["steps"] = earlier_steps
        joined.update(parts)
    if not texts and not fields.contexts_only:
        message = "The stream ended without text."
        if unread is not None:
            message += f" One of its pieces: {shown(unread)}."
        raise BadReturn(f"{message} {EXPECTED}")
    return Parts({**joined, "answer": "".join(texts)})


def _piece_parts(event_name: str, value: object, fields: Fields) -> Parts:
    """The parts of an answer in the data of an event. Raises ReportedError."""
    if event_name == "error":
        raise ReportedError(shown(value))
    if isinstance(value, Mapping):
        _refuse_error(value)
        if fields.answer is None:
            return _usual_piece(value, fields)
        return Parts(parts_of(value, fields))
    if event_name in _TEXT_EVENTS and isinstance(value, str):
        return Parts(answer=value)
    return Parts()


def _json_or_text(data: str) -> object:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    # A piece of text such as "42" or "true" is JSON by chance.
    return data if isinstance(value, int | float) else value


def _refuse_error(value: Mapping[str, object]) -> None:
    """Raise ReportedError if the piece `value` says that the service failed."""
    error = value.get("error")
    if value.get("type") in ("error", "response.failed"):
        raise ReportedError(shown(error or value.get("response") or value))
    if error and field_of_part(value, "answer") is None:
        raise ReportedError(shown(error))


def _usual_piece(value: Mapping[str, object], fields: Fields) -> Parts:
    """The parts of a piece, without its answer if the piece has a type whose text does
    not belong to the answer."""
    kind = value.get("type")
    # Types of OpenAI's Responses API.
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        return Parts(answer=value.get("delta"))
    delta = at_path(value, "choices.0.delta")
    if delta is not None and field_of_part(value, "answer") is None:
        # A chunk of a chat completion, which may have no text.
        value = {**value, "answer": field_value(delta, "content") or ""}
    if kind in _MESSAGE_TYPES:
        return Parts(parts_of(value, fields))
    body: object = value
    if kind in ("response.completed", "response.incomplete"):
        body = value.get("response")
    parts = Parts(parts_of(_usual_body(body), fields))
    # The texts of a completed response were in its pieces already.
    parts.pop("answer", None)
    return parts


def _usual_body(value: Any) -> object:
    """Put the answer of a body of OpenAI's chat completions, OpenAI's Responses API or
    LangServe where it is read from. Any other value is returned as it is."""
    output = field_value(value, "output")
    message = at_path(value, "choices.0.message")
    if message is not None:
        return {**value, "answer": message}
    if field_value(value, "object") == "response" and isinstance(output, list):
        return {**value, **_response_parts(output)}
    return value if field_of_part(output, "answer") is None else output


def _response_parts(output: Iterable[object]) -> dict[str, object]:
    """The parts of an answer in the output of OpenAI's Responses API: the texts of its
    messages, and as contexts the results of its file search."""
    blocks: list[object] = []
    contexts = []
    for item in output:
        content = field_value(item, "content")
        if field_value(item, "type") == "message" and isinstance(content, list):
            blocks += content
        results = field_value(item, "results")
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
