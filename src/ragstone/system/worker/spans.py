"""Reads spans of OpenTelemetry as steps.

Spans can be in OTLP/JSON (opentelemetry-proto), or objects of OpenTelemetry's SDK for
Python, or the JSON that it writes. Their attributes can follow OpenInference's semantic
conventions or OpenTelemetry's for GenAI, as of November 2026.

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
    field_value,
    first_field,
    number,
    parsed_json,
)

Attributes = Json

MAX_SPANS = 100_000
"""Spans of one answer, most of which are no steps."""

_MAX_ATTRIBUTE_DEPTH = 8
_MAX_TEXT_DEPTH = 6
# Digits of an integer that are read: enough for 64 bits.
_MAX_DIGITS = 20
_DOCUMENT_ATTRIBUTE = re.compile(
    r"retrieval\.documents\.(\d{1,4})\.document\.(content|id|score)"
)
_DOCUMENT_LISTS = ("gen_ai.retrieval.documents", "retrieval.documents")
# The lists in a document of OTLP, each inside the one before.
_OTLP_LISTS = ("resourceSpans", "scopeSpans", "spans")
_START_FIELDS = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
_END_FIELDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time")
_IDENTIFYING_FIELDS = ("spanId", "span_id", "context", *_START_FIELDS)
_MODEL_ATTRIBUTES = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
)
# Types of steps, by OpenInference's kind of span or the operation of GenAI. Spans of
# other kinds, such as agents, are no steps.
_STEP_TYPES = {
    "RETRIEVER": "retrieval",
    "retrieval": "retrieval",
    "TOOL": "tool",
    "execute_tool": "tool",
    "LLM": "model",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
# The time of a span without one, which is sorted before all others.
_NO_TIME = -math.inf

_TEXT_NAMES = (
    *("question", "query", "input", "answer", "response", "output"),
    *("result", "content", "text", "messages", "parts"),
)


def spans_in(value: object) -> list[Any] | None:
    """The spans in a document of OTLP, or in a list of spans or documents; None if
    there is no span in `value`. Raises BadReturn for more than MAX_SPANS."""
    if not isinstance(value, (list, tuple, Mapping)):
        return None
    items = [value] if isinstance(value, Mapping) else value
    unpacked = chain.from_iterable(_unpack(item, len(_OTLP_LISTS)) for item in items)
    spans = list(islice(unpacked, MAX_SPANS + 1))
    if not any(map(_is_span, spans)):
        return None
    if len(spans) > MAX_SPANS:
        raise BadReturn(
            f"More than {MAX_SPANS:,} spans were returned for one question."
        )
    return spans


def _is_span(item: object) -> bool:
    """Whether `item` has an id or a time as spans have, and attributes."""
    identification = first_field(item, _IDENTIFYING_FIELDS)
    return bool(identification) and field_value(item, "attributes") is not None


def _unpack(item: object, max_depth: int) -> Iterator[object]:
    """The spans in the lists of a document of OTLP; any other item as it is."""
    inner_list = first_field(item, _OTLP_LISTS)
    if isinstance(inner_list, list) and max_depth:
        for inner in inner_list:
            yield from _unpack(inner, max_depth - 1)
    else:
        yield item


def steps_of_spans(spans: Iterable[object]) -> list[Json]:
    """The steps among `spans`, in a shape that `read_steps` reads, in the order of
    their start times; those without one come first. Parents of spans don't matter."""
    steps = []
    for span in sorted(spans, key=_start_s):
        step = step_of_span(span)
        if step is not None:
            steps.append(step)
    return steps


def _start_s(span: object) -> float:
    return _time_s(first_field(span, _START_FIELDS))


def step_of_span(span: object) -> Json | None:
    """The step that a span describes, in a shape that `read_steps` reads; None if the
    span is no step."""
    attributes = span_attributes(field_value(span, "attributes"))
    kind = kind_of_span(attributes)
    name = field_value(span, "name")
    if kind == "retrieval":
        query = first_field(attributes, ("gen_ai.retrieval.query.text", "input.value"))
        return {
            "type": kind,
            "query": text_in(query),
            "contexts": span_documents(attributes),
            "source": attributes.get("gen_ai.data_source.id") or name,
        }
    if kind == "tool":
        return {
            "type": kind,
            "name": first_field(attributes, ("gen_ai.tool.name", "tool.name")) or name,
            "arguments": _tool_arguments(attributes),
            "result": first_field(
                attributes, ("gen_ai.tool.call.result", "output.value")
            ),
            "error": _span_error(span, attributes),
        }
    if kind is None:
        return None
    return {
        "type": kind,
        "model": first_field(attributes, _MODEL_ATTRIBUTES),
        "input_tokens": _tokens(attributes, "input", "prompt"),
        "output_tokens": _tokens(attributes, "output", "completion"),
        # Infinite or not a number, which `read_steps` ignores, if a time is absent.
        "latency_s": _time_s(first_field(span, _END_FIELDS)) - _start_s(span),
    }


def trace_of(span: object) -> str:
    """The key of the trace that a span belongs to (see `trace_key`)."""
    context = field_value(span, "context")
    trace_id = first_field(span, ("traceId", "trace_id")) or field_value(
        context, "trace_id"
    )
    return trace_key(trace_id)


def trace_key(trace_id: object) -> str:
    """A trace's id in the form in which ids are compared: in lower case, without
    dashes, and without a leading 0x and zeros."""
    # lstrip() takes a set of characters: it removes any zeros and x's.
    return str(trace_id or "").replace("-", "").lower().lstrip("0x")


def kind_of_span(attributes: Attributes) -> str | None:
    """The type of the step that a span with these attributes describes: retrieval, tool
    or model; None if it is no step."""
    span_kind = str(attributes.get("openinference.span.kind")).upper()
    operation = str(attributes.get("gen_ai.operation.name"))
    return _STEP_TYPES.get(span_kind) or _STEP_TYPES.get(operation)


def span_attributes(pairs: object, max_depth: int = _MAX_ATTRIBUTE_DEPTH) -> Json:
    """Attributes by name. `pairs` is a mapping, or OTLP's list of keys and typed
    values."""
    if isinstance(pairs, Mapping):
        return dict(pairs)
    if not isinstance(pairs, (list, tuple)):
        return {}
    return {
        str(field_value(pair, "key")): _attribute_value(
            field_value(pair, "value"), max_depth - 1
        )
        for pair in pairs
    }


def _attribute_value(value: object, max_depth: int) -> Any:
    """The value in one of OTLP's, such as ``{"stringValue": "text"}``; None if it is
    none, or nested too deeply."""
    if not isinstance(value, Mapping) or not value or max_depth < 0:
        return None
    kind, inner = next(iter(value.items()))
    items = field_value(inner, "values")
    if kind == "kvlistValue":
        return span_attributes(items, max_depth)
    if kind == "arrayValue" and isinstance(items, list):
        return [_attribute_value(item, max_depth - 1) for item in items]
    if kind == "intValue":
        digits = str(inner)  # OTLP/JSON writes integers as texts
        return int(digits[:_MAX_DIGITS]) if digits.isdecimal() else None
    return inner


def span_documents(attributes: Attributes) -> list[Any]:
    """The documents that a span retrieved, in the order of their ranks. Documents of
    GenAI's conventions have an id, and rarely a text."""
    document_list = parsed_json(first_field(attributes, _DOCUMENT_LISTS))
    if isinstance(document_list, list):
        return document_list
    documents: dict[int, Json] = {}
    for name, value in attributes.items():
        match = _DOCUMENT_ATTRIBUTE.fullmatch(name)
        if match is not None:
            rank = int(match[1])
            field = match[2]
            documents.setdefault(rank, {})[field] = value
    return [documents[rank] for rank in sorted(documents)]


def _tool_arguments(attributes: Attributes) -> object:
    """The arguments of a call; what OpenInference calls its parameters may be the
    schema of these."""
    for name in ("gen_ai.tool.call.arguments", "tool.parameters", "input.value"):
        arguments = parsed_json(attributes.get(name))
        if arguments is not None and field_value(arguments, "properties") is None:
            return arguments
    return None


def _span_error(span: object, attributes: Attributes) -> str | None:
    status = field_value(span, "status")
    code = first_field(status, ("code", "status_code"))
    code = field_value(code, "name") or code
    if code not in (2, "STATUS_CODE_ERROR", "ERROR"):
        return None
    message = first_field(status, ("message", "description"))
    return str(message or attributes.get("error.type") or "failed")


def _tokens(attributes: Attributes, name: str, other_name: str) -> object:
    names = (
        f"gen_ai.usage.{name}_tokens",
        f"gen_ai.usage.{other_name}_tokens",
        f"llm.token_count.{other_name}",
    )
    return first_field(attributes, names)


def _time_s(value: object) -> float:
    """A time in seconds since 1970, from nanoseconds as a number or text, or from ISO
    8601; _NO_TIME for anything else."""
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
    """The text of a span's input or output: the value itself, or a text in its JSON; of
    a chat, the last message. Empty if there is none."""
    inner = parsed_json(value)
    candidates: Iterable[object] = ()
    if isinstance(inner, list):
        candidates = reversed(inner)
    elif isinstance(inner, Mapping):
        candidates = (inner[name] for name in _TEXT_NAMES if name in inner)
    if depth > _MAX_TEXT_DEPTH:
        return ""
    for candidate in candidates:
        text = text_in(candidate, depth + 1)
        if text:
            return text
    return value if isinstance(value, str) else ""
