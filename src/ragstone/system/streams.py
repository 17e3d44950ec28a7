"""Replies of services: what in a body or a stream is text of the answer, contexts and token usage.

A stream is server-sent events, a data stream of the AI SDK 4 (lines such as `0:"text"`), JSON objects one after the
other, or plain text. Its pieces have the shapes of the AI SDK 5, OpenAI's chat completions and Responses, Anthropic's
messages, Ollama, LangServe, or simple ones such as `{"token": "text"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter

from ragstone.system import worker

EVENTS = "text/event-stream"
TEXTS = ("text/plain", "text/markdown")
_DONE = "[DONE]"
"""The end of a stream from OpenAI's servers and many others."""

_SDK4_LINE = re.compile(r"""[0-9a-k]:["{\[]""")
_SDK4 = {
    "0": "text",
    "2": "data-part",
    "3": "error",
    "8": "data-part",
    "a": "tool-result",
    "d": "finish",
    "h": "source",
}
"""Types of the lines of the AI SDK's data stream that have text or contexts; the others are of no interest."""

_EVENT_LINE = re.compile(r"(data|event|id|retry)?:")
_LINE_END = re.compile(r"\r\n|\n|\r")
_BYTE_LINE_END = re.compile(_LINE_END.pattern.encode())
_WRAPPERS = ("output", "data", "result", "response")
_PAYLOADS = ("data", "content", "value", "output", "result")
_OTHER_SOURCES = ("citations", "references", "chunks")
_SOURCES = (*worker.CONTEXTS_NAMES, *_OTHER_SOURCES)
_SPOKEN = re.compile(r"text|token|chunk|message|answer|content")
_SILENT = re.compile(
    r"reason|think|tool|function|status|progress|step|ping|meta|debug|log|data-|source|reference|citation"
)
"""Types of events whose text is not the answer's."""

_FINAL = re.compile(r"(^|[._-])(done|final|complete|completed|end|finish|finished|incomplete)($|[._-])")
_COUNTS = (("promptTokens", "completionTokens"), ("inputTokens", "outputTokens"), ("prompt_eval_count", "eval_count"))
_DECODER, _SPACE = json.JSONDecoder(), re.compile(r"\s*")
_MAX_DEPTH = 4
_MAX_UNREAD = 20
MAX_PIECES = 100_000
"""Pieces of a stream: more than a model writes tokens, and few enough to be read while other questions wait."""
_MAX_TRIMMED = 20
"""Characters by which the whole answer, sent again, may differ from its pieces."""


class ReportedError(Exception):
    """The stream says that the service failed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The value of a body, or the joined pieces of a stream.

    `whole_at` is when it was complete, and `first_text_at` when a stream's first text arrived.
    """

    value: object
    whole_at: float
    first_text_at: float | None = None


async def read_reply(chunks: AsyncIterator[bytes], content_type: str, fields: worker.Fields) -> Reply:
    """The reply in the chunks of a body. Raises worker.BadReturn and ReportedError."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == EVENTS:
        return await _read_events(chunks, fields)
    body, arrived = bytearray(), list[tuple[int, float]]()
    async for chunk in chunks:
        body += chunk
        arrived.append((len(body), perf_counter()))
    whole_at = perf_counter()
    try:
        value: object = json.loads(bytes(body))
        if kind not in TEXTS or isinstance(value, str | list | dict):
            return Reply(value if fields.answer or fields.contexts_only else _whole(value), whole_at)
    except (ValueError, RecursionError):
        pass
    text = body.decode("utf-8", "replace")
    stream, size, passed, chunk_at = _Stream(fields), 0, 0, 0
    for name, found, end in _frames(text, kind):
        size += len(text[passed:end].encode())
        passed = end
        while chunk_at < len(arrived) - 1 and arrived[chunk_at][0] < size:
            chunk_at += 1
        stream.add(name, found, arrived[chunk_at][1])
    return stream.reply(whole_at)


async def _read_events(chunks: AsyncIterator[bytes], fields: worker.Fields) -> Reply:
    """The answer in server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    stream, events, lines = _Stream(fields), _Events(), _Lines()
    async for chunk in chunks:
        for line in lines.add(chunk):
            found = events.add(line)
            if found is not None and not stream.add(*found, perf_counter()):
                return stream.reply(perf_counter())
    for last in (lines.rest(), ""):  # some servers omit the last empty line
        found = events.add(last)
        if found is not None:
            stream.add(*found, perf_counter())
    return stream.reply(perf_counter())


class _Lines:
    """Splits bytes, as they arrive, into lines that end with CRLF, LF or CR."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._ended_in_return = False

    def add(self, chunk: bytes) -> Iterator[str]:
        """The lines that end in `chunk`."""
        if not chunk:
            return
        if self._ended_in_return:
            chunk = chunk.removeprefix(b"\n")
        self._ended_in_return = chunk.endswith(b"\r")
        *ended, rest = _BYTE_LINE_END.split(chunk)
        for piece in ended:
            self._rest += piece
            yield self.rest()
            self._rest.clear()
        self._rest += rest

    def rest(self) -> str:
        """The line that has not ended."""
        return self._rest.decode("utf-8", "replace")


class _Events:
    """Joins lines to events."""

    def __init__(self) -> None:
        self._name = ""
        self._data = list[str]()

    def add(self, line: str) -> tuple[str, object] | None:
        """The name and the data of the event that ends with `line`, if one does: JSON, or else text."""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif not line:
            name, data, self._name, self._data = self._name, "\n".join(self._data), "", []
            return (name, _loaded(data)) if data else None
        return None


def _loaded(data: str) -> object:
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return data
    return data if isinstance(value, int | float) else value  # text that happens to be a number, or true


def _frames(text: str, kind: str) -> Iterator[tuple[str, object, int]]:
    """The pieces of a stream: type, value, and where in `text` each ends. Raises worker.BadReturn."""
    lines = [line for line in _LINE_END.split(text) if line.strip()]
    end = 0
    if lines and all(_SDK4_LINE.match(line) for line in lines):
        for line in lines:
            end = text.index(line, end) + len(line)
            yield _SDK4.get(line[0], "step"), _loaded(line[2:]), end
    elif any(line.startswith("data:") for line in lines) and all(_EVENT_LINE.match(line) for line in lines):
        events = _Events()
        for line, end in (*_lines(text), ("", len(text))):
            found = events.add(line)
            if found is not None:
                yield *found, end
    elif (values := _objects(text)) is not None:
        yield from (("", value, end) for value, end in values)
    elif kind in TEXTS and text.strip():
        yield "", text, len(text) - len(text.lstrip()) + 1
    else:
        why = f" Text is an answer if its content type is text/plain; this is {kind[:80]}." if kind else ""
        raise worker.BadReturn(f"Answered with {worker.shown(text[:1_000])}, which is not JSON.{why}")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """The lines of `text`, and where each ends with its line end."""
    start = 0
    for line_end in _LINE_END.finditer(text):
        yield text[start : line_end.start()], line_end.end()
        start = line_end.end()
    yield text[start:], len(text)


def _objects(text: str) -> list[tuple[object, int]] | None:
    """JSON objects one after the other, each on a line of its own or not; None if there is anything else."""
    found = list[tuple[object, int]]()
    at = len(text) - len(text.lstrip())
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, Mapping):
            return None
        found.append((value, end))
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return found or None


class _Stream:
    """Joins the pieces of a stream, and collects the sources that come in pieces of their own."""

    def __init__(self, fields: worker.Fields) -> None:
        self.first_text_at: float | None = None
        self._fields = fields
        self._pieces = worker.Pieces({}, None)
        self._said, self._said_length = list[str](), 0
        self._usage = dict[str, object]()
        self._sources = list[object]()
        self._named = False
        self._unread = list[object]()
        self._count = 0

    def add(self, name: str, value: object, at: float) -> bool:
        """Add what a piece of type `name` has; False at the end of the stream. Raises BadReturn and ReportedError."""
        if value == _DONE:
            return False
        self._count += 1
        if self._count > MAX_PIECES:
            raise worker.BadReturn(f"The stream has more than {MAX_PIECES:,} pieces.")
        if name == "error":
            raise ReportedError(worker.shown(value))
        if isinstance(value, Mapping):
            kind = next((one for one in (value.get("type"), value.get("event")) if isinstance(one, str)), name)
            found: object = value if self._fields.answer else self._understood(kind, value)
        else:
            kind = name
            found = None if _SILENT.search(name) or not isinstance(value, str) else value
        if self._fields.contexts is None:
            self._collect(kind, value)
        text, others = worker.read_piece(found, self._fields)
        if text and isinstance(value, Mapping) and self._repeats(kind, text):
            text = ""
        if isinstance(others.get("usage"), Mapping):
            self._usage.update(others["usage"])
            others["usage"] = self._usage
        self._named = self._named or "contexts" in others
        if text is None and not others:
            self._unread.append(value) if len(self._unread) < _MAX_UNREAD else None
            return True
        if text and self.first_text_at is None:
            self.first_text_at = at
        if text:
            self._said.append(text)
            self._said_length += len(text)
        self._pieces.add({**others, "answer": text or ""})
        return True

    def reply(self, whole_at: float) -> Reply:
        """All that came. Raises BadReturn if there was no text."""
        if self._sources and not self._named:
            _, others = worker.read_piece({"contexts": self._sources}, self._fields)
            self._pieces.add(others)
        if self._fields.contexts_only and self._pieces.any:
            return Reply(self._pieces.whole(), whole_at)
        if self.first_text_at is None:
            raise worker.BadReturn(f"The stream ended without text.{self._hint()} {worker.EXPECTED}")
        return Reply(self._pieces.whole(), whole_at, self.first_text_at)

    def _hint(self) -> str:
        if not self._unread:
            return ""
        sent = "; ".join(worker.shown(one) for one in self._unread[:2])
        path = max((path for one in self._unread for path in worker.text_paths(one)[:1]), key=len, default="delta.text")
        named = (
            f"answer_field = '{self._fields.answer}' is in none of its pieces"
            if self._fields.answer
            else "None of its pieces has text in a known field"
        )
        return f' {named}: {sent}. Set the path of the text, such as answer_field = "{path}", under [system].'

    def _repeats(self, kind: str, text: str) -> bool:
        """Whether a piece has the whole answer again, as the last one often does."""
        if self._said and _FINAL.search(kind):
            return True
        near = abs(len(text) - self._said_length) <= _MAX_TRIMMED
        return (
            near and (len(self._said) > 1 or len(text) > _MAX_TRIMMED) and text.strip() == "".join(self._said).strip()
        )

    def _understood(self, kind: str, value: Mapping[str, object]) -> Mapping[str, object] | None:
        """`value` with its text of the answer as `answer`, if it has the shape of a known protocol."""
        delta, response = value.get("delta"), value.get("response")
        error = value.get("error") or value.get("errorText")
        if kind in ("error", "response.failed") or (
            error and worker.read_piece(value)[0] is None and "tool" not in kind
        ):
            raise ReportedError(worker.shown(error or response or value))
        if kind.startswith("response."):  # OpenAI Responses
            if isinstance(response, Mapping):
                found = _whole(response)
                return found if isinstance(found, Mapping) else None
            return {"answer": delta} if kind.endswith(("output_text.delta", "refusal.delta")) else None
        if _SILENT.search(kind):
            return {name: value[name] for name in (*worker.CONTEXTS_NAMES, *worker.USAGE_NAMES) if name in value}
        if isinstance(delta, Mapping):
            delta = delta.get("text") or delta.get("content")
        payload = next((value[name] for name in _PAYLOADS if name in value), None)
        texts = (delta, value.get("token"), value.get("chunk"), payload if _SPOKEN.match(kind) else None)
        text = next((one for one in texts if isinstance(one, str)), None)
        found = _whole(value) if text is None else {**value, "answer": text}
        return found if isinstance(found, Mapping) else None

    def _collect(self, kind: str, value: object) -> None:
        """Collect the sources in a piece that has nothing else."""
        inside = value if isinstance(value, Mapping) else {}
        payload = next((inside[name] for name in (*_PAYLOADS, "messageMetadata") if name in inside), value)
        if kind in ("source", "source-url", "source-document"):
            self._sources += _source(inside.get("source", value))
        elif kind.removeprefix("data-") in _SOURCES:
            self._sources += payload if isinstance(payload, list) else self._passages(payload)
        elif re.match(r"data-|tool|finish|message-metadata", kind):
            self._sources += self._passages(payload)
        else:
            self._sources += self._passages({name: inside[name] for name in _OTHER_SOURCES if name in inside})

    def _passages(self, value: object) -> list[object]:
        """Contexts in what goes with a stream: a list under a known name, or one of items with text."""
        if isinstance(value, Mapping):
            named = value.get("data") if value.get("type") in _SOURCES else None
            named = next((value[name] for name in _SOURCES if name in value), named)
            return named if isinstance(named, list) else []
        if not isinstance(value, list):
            return []
        names = (*worker.TEXT_NAMES, self._fields.context_text or "text")
        if all(
            isinstance(item, Mapping) and any(isinstance(worker.at_path(item, n), str) for n in names) for item in value
        ):
            return [item for item in value if not _SILENT.search(str(item.get("type", "")))]
        return [one for item in value for one in self._passages(item)]


def _source(value: object) -> list[object]:
    """A source as a context, by its address or name if it has no text; none if it has neither."""
    if not isinstance(value, Mapping):
        return [value] if isinstance(value, str) else []
    names = [value.get(name) for name in ("url", "filename", "title", "sourceId", "id")]
    named = next((name for name in names if isinstance(name, str) and name), None)
    return [] if named is None else [{**value, "id": named}]


def _whole(value: object, depth: int = _MAX_DEPTH) -> object:
    """A body with answer, contexts and usage under their known names too, if it has the shape of a known protocol."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        value = value[0]
    if not isinstance(value, Mapping) or not depth:
        return value
    found, choices, output = dict(value), value.get("choices"), value.get("output")
    holders = (one for one in (value, value.get("usage"), value.get("message")) if isinstance(one, Mapping))
    for holder in holders:
        for names in _COUNTS:
            if names[0] in holder:
                found["usage"] = {"input_tokens": holder[names[0]], "output_tokens": holder.get(names[1])}
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, Mapping) and "delta" not in first:
        return {**found, "answer": first.get("message") or first.get("text")}
    if value.get("object") == "response" and isinstance(output, list):
        items = [item for item in output if isinstance(item, Mapping)]
        blocks = [one for item in items if item.get("type") == "message" for one in _list(item.get("content"))]
        results = [one for item in items for one in _list(item.get("results")) if isinstance(one, Mapping)]
        found |= {"answer": {"content": blocks} if blocks else ""}
        return {**found, "contexts": [{"id": one.get("filename"), **one} for one in results]} if results else found
    if worker.read_piece(value)[0] is None:
        if isinstance(value.get("message"), Mapping):
            return {"usage": value["message"].get("usage"), **found, "answer": value["message"]}
        for name in _WRAPPERS:
            inner = _whole(value[name], depth - 1) if isinstance(value.get(name), Mapping) else None
            text = worker.read_piece(inner)[0]
            if isinstance(inner, Mapping) and text is not None:
                return {**found, **inner, "answer": text}
    return found


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
