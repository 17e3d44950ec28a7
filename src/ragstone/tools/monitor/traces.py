"""Traces as interactions: OTLP JSON with OpenInference's attributes or OpenTelemetry's
for GenAI.

A trace is put together from its spans, wherever in the file they are: question and
answer from the root, what was retrieved from its retriever spans. GenAI's conventions
have ids of documents and no texts, so such traces are counted, and not judged.

OTLP JSON has one request per line, as the collector's file exporter writes it;
`system/worker/spans.py` reads the attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstone.errors import ConfigError
from ragstone.system.worker.spans import (
    kind_of_span,
    span_attributes,
    span_documents,
    text_in,
)

MAX_SPANS = 1_000_000

_Nanoseconds = Annotated[int, Field(ge=0, lt=10**19)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, coerce_numbers_to_str=True
    )


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
        return span_attributes(self.pairs)


class _Scope(_Part):
    spans: tuple[_Span, ...] = ()


class _Resource(_Part):
    scopes: tuple[_Scope, ...] = Field(default=(), alias="scopeSpans")


class _Request(_Part):
    resources: tuple[_Resource, ...] = Field(alias="resourceSpans")


def interactions_of(
    records: Iterable[Mapping[str, Any]], where: str
) -> Iterator[Mapping[str, Any]]:
    """A record of an interaction per trace in `records`; a record that is no valid
    request of OTLP is passed on.

    Raises ConfigError for more than MAX_SPANS spans.
    """
    traces: dict[str, list[_Span]] = {}
    count = 0
    for record in records:
        try:
            request = _Request.model_validate(record)
        except ValidationError:
            yield record
            continue
        for resource in request.resources:
            for scope in resource.scopes:
                count += len(scope.spans)
                for span in scope.spans:
                    traces.setdefault(span.trace, []).append(span)
        if count > MAX_SPANS:
            message = f"has more than {MAX_SPANS:,} spans."
            raise ConfigError(
                message, where=where, hint="Give the spans of each day their own file."
            )
    for spans in traces.values():
        in_order = sorted(spans, key=lambda span: span.start)
        yield _interaction(in_order)


def _interaction(spans: Sequence[_Span]) -> dict[str, Any]:
    """The record of one trace; `spans` are sorted by their start."""
    ids = {span.id for span in spans}
    roots = (span for span in spans if span.parent not in ids)
    root = next(roots, spans[0])
    descendants = [span.attributes for span in spans if span is not root]
    attributes = [root.attributes, *descendants]
    newest_first = [root.attributes, *reversed(descendants)]
    question = _first(attributes, "input.value", "gen_ai.input.messages")
    answer = _first(newest_first, "output.value", "gen_ai.output.messages")
    duration_ns = root.end - root.start
    status = root.status.get("code")
    record = {
        "id": root.trace,
        "timestamp": root.start / 1e9,
        "question": text_in(question),
        "answer": text_in(answer),
        "latency_s": duration_ns / 1e9,
        "user_id": _first(attributes, "user.id", "enduser.id"),
        "session_id": _first(attributes, "session.id", "gen_ai.conversation.id"),
        "error": status in (2, "STATUS_CODE_ERROR"),
    }
    retrieved = [
        span_documents(values)
        for values in attributes
        if kind_of_span(values) == "retrieval"
    ]
    if retrieved:
        sources = list(chain.from_iterable(retrieved))
        record |= {"sources": sources, "results": len(sources)}
    return record


def _first(spans: Iterable[Mapping[str, Any]], *names: str) -> Any:
    """The first of the attributes `names` that one of `spans` has."""
    for attributes in spans:
        for name in names:
            if attributes.get(name):
                return attributes[name]
    return None
