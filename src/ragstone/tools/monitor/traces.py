"""Traces as interactions: OTLP JSON with OpenInference's attributes or OpenTelemetry's for GenAI.

A trace is put together from its spans, wherever in the file they are: question and answer from the root, what was
retrieved from its retriever spans. GenAI's conventions have ids of documents and no texts, so such traces are counted,
and not judged.

Sources of the shapes, as of November 2026: OTLP/JSON (opentelemetry-proto, one request per line as the collector's file
exporter writes it), OpenInference's semantic conventions, OpenTelemetry's GenAI conventions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstone.errors import ConfigError

MAX_SPANS = 1_000_000
_MAX_DEPTH = 6
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,4})\.document\.(content|id)")
_GENAI_DOCUMENTS = "gen_ai.retrieval.documents"
_TEXT_NAMES = (
    *("question", "query", "input", "user_input", "answer", "response", "output", "result", "content", "text"),
    *("messages", "parts"),
)

_Nanoseconds = Annotated[int, Field(ge=0, lt=10**19)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, coerce_numbers_to_str=True)


class _Attribute(_Part):
    key: str
    value: dict[str, Any] = Field(default_factory=dict)


class _Span(_Part):
    trace: str = Field(alias="traceId")
    id: str = Field(alias="spanId")
    parent: str = Field(default="", alias="parentSpanId")
    start: _Nanoseconds = Field(alias="startTimeUnixNano")
    end: _Nanoseconds = Field(alias="endTimeUnixNano")
    status: dict[str, Any] = Field(default_factory=dict)
    pairs: tuple[_Attribute, ...] = Field(default=(), alias="attributes")

    @property
    def attributes(self) -> dict[str, Any]:
        return {pair.key: next(iter(pair.value.values()), None) for pair in self.pairs}


class _Scope(_Part):
    spans: tuple[_Span, ...] = ()


class _Resource(_Part):
    scopes: tuple[_Scope, ...] = Field(default=(), alias="scopeSpans")


class _Request(_Part):
    resources: tuple[_Resource, ...] = Field(alias="resourceSpans")


def is_trace(record: Mapping[str, Any]) -> bool:
    """Whether a record is a request of OTLP, whose spans `interactions_of` puts together."""
    return "resourceSpans" in record


def interactions_of(records: Iterable[Mapping[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """A record of an interaction per trace in `records`; a record that is no valid request is passed on.

    Raises ConfigError for more than MAX_SPANS spans.
    """
    traces: dict[str, list[_Span]] = {}
    count = 0
    for record in records:
        try:
            request = _Request.model_validate(record)
        except ValidationError:
            yield dict(record)
            continue
        for span in (span for resource in request.resources for scope in resource.scopes for span in scope.spans):
            traces.setdefault(span.trace, []).append(span)
            count += 1
        if count > MAX_SPANS:
            message = f"has more than {MAX_SPANS:,} spans."
            raise ConfigError(message, where=where, hint="Give the spans of each day their own file.")
    for spans in traces.values():
        yield _interaction(sorted(spans, key=lambda span: span.start))


def _interaction(spans: Sequence[_Span]) -> dict[str, Any]:
    """The record of one trace; `spans` are sorted by their start."""
    ids = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in ids), spans[0])
    attributes = [root.attributes, *(span.attributes for span in spans if span is not root)]
    newest_first = [attributes[0], *attributes[:0:-1]]
    record = {
        "id": root.trace,
        "timestamp": root.start / 1e9,
        "question": _text(_first(attributes, "input.value", "gen_ai.input.messages")),
        "answer": _text(_first(newest_first, "output.value", "gen_ai.output.messages")),
        "latency_s": (root.end - root.start) / 1e9,
        "user_id": _first(attributes, "user.id", "enduser.id"),
        "session_id": _first(attributes, "session.id", "gen_ai.conversation.id"),
        "error": root.status.get("code") in (2, "STATUS_CODE_ERROR"),
    }
    retrievers = [values for values in attributes if _kind(values) == "RETRIEVER" or _GENAI_DOCUMENTS in values]
    if retrievers:
        sources = [document for values in retrievers for document in _documents(values)]
        record |= {"sources": sources, "results": len(sources)}
    return record


def _kind(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("openinference.span.kind", "")).upper()


def _first(spans: Iterable[Mapping[str, Any]], *names: str) -> Any:
    """The first of the attributes `names` that one of `spans` has."""
    values = (attributes.get(name) for attributes in spans for name in names)
    return next(filter(None, values), None)


def _documents(attributes: Mapping[str, Any]) -> list[Any]:
    listed = _parsed(attributes.get(_GENAI_DOCUMENTS))
    if isinstance(listed, list):
        return listed
    documents: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        place = _DOCUMENT.fullmatch(name)
        if place is not None:
            field = "text" if place[2] == "content" else "id"
            documents.setdefault(int(place[1]), {})[field] = value
    return [documents[number] for number in sorted(documents)]


def _text(value: object, depth: int = 0) -> str:
    """The text in an input or an output: itself, or that of its JSON; the last turn of a chat."""
    inner = _parsed(value)
    texts: Iterable[object] = ()
    if isinstance(inner, list):
        texts = reversed(inner)
    elif isinstance(inner, Mapping):
        texts = (inner[name] for name in _TEXT_NAMES if name in inner)
    elif isinstance(value, str):
        return value
    if depth > _MAX_DEPTH:
        return ""
    return next(filter(None, (_text(text, depth + 1) for text in texts)), value if isinstance(value, str) else "")


def _parsed(value: object) -> object:
    """The JSON object or list in a text; anything else as it is."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
