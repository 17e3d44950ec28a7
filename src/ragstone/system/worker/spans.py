"""Spans of OpenTelemetry as steps: OpenInference's attributes, and OpenTelemetry's for
GenAI.

Sources of the shapes, as of November 2026: OTLP/JSON (opentelemetry-proto), what
OpenTelemetry's SDK for Python has and writes as JSON, OpenInference's semantic
conventions, OpenTelemetry's GenAI conventions.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from typing import Any

from ragstone.system.worker.fields import (
    BadReturn,
    Json,
    first,
    get,
    number,
    parsed_json,
)

Attributes = Json

MAX_SPANS = 100_000
"""Spans of one answer, most of which are no steps."""

_MAX_ATTRIBUTE_DEPTH = 8
_MAX_TEXT_DEPTH = 6
_MAX_DIGITS = 20
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,4})\.document\.(content|id|score)")
_DOCUMENT_LISTS = ("gen_ai.retrieval.documents", "retrieval.documents")
_OTLP_LISTS = ("resourceSpans", "scopeSpans", "spans")
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
_ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time")
_PLACES = ("spanId", "span_id", "context", *_STARTS)
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_KINDS = {
    "RETRIEVER": "retrieval",
    "retrieval": "retrieval",
    "TOOL": "tool",
    "execute_tool": "tool",
    "LLM": "model",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
"""Kinds of steps, by OpenInference's kind of span, and by the operation of GenAI.
Others, such as agents, are none."""
_NO_TIME = -math.inf
"""Before every time."""

_TEXT_NAMES = (
    *("question", "query", "input", "answer", "response", "output"),
    *("result", "content", "text", "messages", "parts"),
)


def spans_in(value: object) -> list[Any] | None:
    """The spans in an OTLP document, or in a list of spans or documents; None if
    `value` is none of these.

    Raises BadReturn for more than MAX_SPANS.
    """
    if not isinstance(value, (list, tuple, Mapping)):
        return None
    items = [value] if isinstance(value, Mapping) else value
    unpacked = chain.from_iterable(_unpacked(item, len(_OTLP_LISTS)) for item in items)
    spans = list(islice(unpacked, MAX_SPANS + 1))
    if not any(map(_is_span, spans)):
        return None
    if len(spans) > MAX_SPANS:
        raise BadReturn(
            f"More than {MAX_SPANS:,} spans were returned for one question."
        )
    return spans


def _is_span(item: object) -> bool:
    """Whether `item` has a place in a trace, and attributes."""
    place = first(item, _PLACES)
    return bool(place) and get(item, "attributes") is not None


def _unpacked(item: object, depth: int) -> Iterator[object]:
    inner = first(item, _OTLP_LISTS)
    if isinstance(inner, list) and depth:
        for part in inner:
            yield from _unpacked(part, depth - 1)
    else:
        yield item


def steps_of_spans(spans: Iterable[object]) -> list[Json]:
    """The spans that are steps, as `read_steps` reads them, by their start; those
    without one come first.

    Spans stand alone: whether a parent is among them doesn't matter.
    """
    steps = []
    for span in sorted(spans, key=_start_s):
        step = step_of_span(span)
        if step is not None:
            steps.append(step)
    return steps


def _start_s(span: object) -> float:
    return _time_s(first(span, _STARTS))


def step_of_span(span: object) -> Json | None:
    """The step that a span is, as `read_steps` reads it; None if it is none."""
    attributes = span_attributes(get(span, "attributes"))
    kind = kind_of_span(attributes)
    name = get(span, "name")
    if kind == "retrieval":
        query = first(attributes, ("gen_ai.retrieval.query.text", "input.value"))
        return {
            "type": kind,
            "query": text_in(query),
            "contexts": span_documents(attributes),
            "source": attributes.get("gen_ai.data_source.id") or name,
        }
    if kind == "tool":
        return {
            "type": kind,
            "name": first(attributes, ("gen_ai.tool.name", "tool.name")) or name,
            "arguments": _tool_arguments(attributes),
            "result": first(attributes, ("gen_ai.tool.call.result", "output.value")),
            "error": _span_error(span, attributes),
        }
    if kind is None:
        return None
    return {
        "type": kind,
        "model": first(attributes, _MODELS),
        "input_tokens": _tokens(attributes, "input", "prompt"),
        "output_tokens": _tokens(attributes, "output", "completion"),
        # Not finite, and so not read, unless it has both times.
        "latency_s": _time_s(first(span, _ENDS)) - _start_s(span),
    }


def trace_of(span: object) -> str:
    """The id of the trace that a span belongs to, as `trace_key` writes it."""
    context = get(span, "context")
    trace_id = first(span, ("traceId", "trace_id")) or get(context, "trace_id")
    return trace_key(trace_id)


def trace_key(trace_id: object) -> str:
    """A trace's id as ids are compared: in lower case, without dashes and without 0x
    and zeros before it."""
    return str(trace_id or "").replace("-", "").lower().lstrip("0x")


def kind_of_span(attributes: Attributes) -> str | None:
    """Which step a span is by its attributes: retrieval, tool or model; None if it is
    none."""
    own_kind = str(attributes.get("openinference.span.kind")).upper()
    operation = str(attributes.get("gen_ai.operation.name"))
    return _KINDS.get(own_kind) or _KINDS.get(operation)


def span_attributes(pairs: object, depth: int = _MAX_ATTRIBUTE_DEPTH) -> Json:
    """Attributes by name: those of OTLP, which are a list of keys and typed values, or
    a mapping."""
    if isinstance(pairs, Mapping):
        return dict(pairs)
    if not isinstance(pairs, (list, tuple)):
        return {}
    return {
        str(get(pair, "key")): _attribute_value(get(pair, "value"), depth - 1)
        for pair in pairs
    }


def _attribute_value(value: object, depth: int) -> Any:
    if not isinstance(value, Mapping) or not value or depth < 0:
        return None
    kind, inner = next(iter(value.items()))
    items = get(inner, "values")
    if kind == "kvlistValue":
        return span_attributes(items, depth)
    if kind == "arrayValue" and isinstance(items, list):
        return [_attribute_value(item, depth - 1) for item in items]
    if kind == "intValue":
        digits = str(inner)
        return int(digits[:_MAX_DIGITS]) if digits.isdecimal() else None
    return inner


def span_documents(attributes: Attributes) -> list[Any]:
    """What a span retrieved, by rank; GenAI's conventions have ids of documents, and
    rarely texts."""
    listed = parsed_json(first(attributes, _DOCUMENT_LISTS))
    if isinstance(listed, list):
        return listed
    documents: dict[int, Json] = {}
    for name, value in attributes.items():
        place = _DOCUMENT.fullmatch(name)
        if place is not None:
            rank, field = int(place[1]), place[2]
            documents.setdefault(rank, {})[field] = value
    return [documents[rank] for rank in sorted(documents)]


def _tool_arguments(attributes: Attributes) -> object:
    """The arguments of a call; what OpenInference calls its parameters may be the
    schema of these."""
    for name in ("gen_ai.tool.call.arguments", "tool.parameters", "input.value"):
        arguments = parsed_json(attributes.get(name))
        if arguments is not None and get(arguments, "properties") is None:
            return arguments
    return None


def _span_error(span: object, attributes: Attributes) -> str | None:
    status = get(span, "status")
    code = first(status, ("code", "status_code"))
    code = get(code, "name") or code
    if code not in (2, "STATUS_CODE_ERROR", "ERROR"):
        return None
    message = first(status, ("message", "description"))
    return str(message or attributes.get("error.type") or "failed")


def _tokens(attributes: Attributes, name: str, other_name: str) -> object:
    names = (
        f"gen_ai.usage.{name}_tokens",
        f"gen_ai.usage.{other_name}_tokens",
        f"llm.token_count.{other_name}",
    )
    return first(attributes, names)


def _time_s(value: object) -> float:
    """Seconds since 1970 of nanoseconds, also in a text, or of a time as ISO 8601; for
    anything else _NO_TIME."""
    if isinstance(value, str):
        if not value.isdecimal():
            return _iso_time_s(value)
        value = int(value[:_MAX_DIGITS])
    nanoseconds = number(value)
    return _NO_TIME if nanoseconds is None else nanoseconds / 1e9


def _iso_time_s(text: str) -> float:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return time.timestamp()
    except (ValueError, OverflowError, OSError):
        return _NO_TIME


def text_in(value: object, depth: int = 0) -> str:
    """The text in an input or an output: itself, or that of its JSON; the last turn of
    a chat."""
    inner = parsed_json(value)
    texts: Iterable[object] = ()
    if isinstance(inner, list):
        texts = reversed(inner)
    elif isinstance(inner, Mapping):
        texts = (inner[name] for name in _TEXT_NAMES if name in inner)
    if depth > _MAX_TEXT_DEPTH:
        return ""
    for item in texts:
        text = text_in(item, depth + 1)
        if text:
            return text
    return value if isinstance(value, str) else ""
