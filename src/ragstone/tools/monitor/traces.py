"""Reads traces as interactions: OTLP JSON with the attributes of OpenInference or of
OpenTelemetry's conventions for GenAI.

A file has one request of OTLP on each line, as the file exporter of OpenTelemetry's
collector writes it. The spans of a trace may be in any of them. Question and answer are
those of the root span, or of another span if it has none; the sources are from all
retriever spans. By the conventions for GenAI, documents have ids and no texts: such
traces count in the figures of a window, but can't be judged.
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
"""In one file: its spans are in memory until all are read."""

_Nanoseconds = Annotated[int, Field(ge=0, lt=10**19)]


class _OtlpModel(BaseModel):
    """A part of a request of OTLP. Fields that aren't needed are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, coerce_numbers_to_str=True
    )


class _Attribute(_OtlpModel):
    key: str
    value: dict[str, Any] = Field(default_factory=dict)


class _Span(_OtlpModel):
    trace_id: str = Field(alias="traceId")
    span_id: str = Field(alias="spanId")
    parent_id: str = Field(default="", alias="parentSpanId")
    start: _Nanoseconds = Field(alias="startTimeUnixNano")
    end: _Nanoseconds = Field(alias="endTimeUnixNano")
    status: dict[str, Any] = Field(default_factory=dict)
    attribute_list: tuple[_Attribute, ...] = Field(default=(), alias="attributes")

    @property
    def attributes(self) -> dict[str, Any]:
        """The values of the attributes by their names."""
        return span_attributes(self.attribute_list)


class _Scope(_OtlpModel):
    spans: tuple[_Span, ...] = ()


class _Resource(_OtlpModel):
    scopes: tuple[_Scope, ...] = Field(default=(), alias="scopeSpans")


class _Request(_OtlpModel):
    resources: tuple[_Resource, ...] = Field(alias="resourceSpans")


def interactions_of(
    records: Iterable[Mapping[str, Any]], where: str
) -> Iterator[Mapping[str, Any]]:
    """Yield each of `records` that is no request of OTLP as it is, and then a record
    for each trace in all that are.

    `where` is the file for errors. Raises ConfigError for more than MAX_SPANS spans.
    """
    spans_by_trace: dict[str, list[_Span]] = {}
    span_count = 0
    for record in records:
        try:
            request = _Request.model_validate(record)
        except ValidationError:
            yield record
            continue
        for resource in request.resources:
            for scope in resource.scopes:
                span_count += len(scope.spans)
                for span in scope.spans:
                    spans_by_trace.setdefault(span.trace_id, []).append(span)
        if span_count > MAX_SPANS:
            raise ConfigError(
                f"has more than {MAX_SPANS:,} spans.",
                where=where,
                hint="Write the spans to more than one file, for example one a day.",
            )
    for spans in spans_by_trace.values():
        by_start = sorted(spans, key=lambda span: span.start)
        yield _interaction(by_start)


def _interaction(spans: Sequence[_Span]) -> dict[str, Any]:
    """The record of the interaction that a trace shows; its `spans` are sorted by their
    start."""
    span_ids = {span.span_id for span in spans}
    roots = (span for span in spans if span.parent_id not in span_ids)
    root = next(roots, spans[0])  # spans may name each other as parents
    below_root = [span.attributes for span in spans if span is not root]
    first_to_last = [root.attributes, *below_root]
    last_to_first = [root.attributes, *reversed(below_root)]
    question = _attribute(first_to_last, "input.value", "gen_ai.input.messages")
    answer = _attribute(last_to_first, "output.value", "gen_ai.output.messages")
    duration_ns = root.end - root.start
    status = root.status.get("code")
    record = {
        "id": root.trace_id,
        "timestamp": root.start / 1e9,
        "question": text_in(question),
        "answer": text_in(answer),
        "latency_s": duration_ns / 1e9,
        "user_id": _attribute(first_to_last, "user.id", "enduser.id"),
        "session_id": _attribute(first_to_last, "session.id", "gen_ai.conversation.id"),
        "error": status in (2, "STATUS_CODE_ERROR"),
    }
    retrieved = [
        span_documents(attributes)
        for attributes in first_to_last
        if kind_of_span(attributes) == "retrieval"
    ]
    if retrieved:
        sources = list(chain.from_iterable(retrieved))
        record |= {"sources": sources, "results": len(sources)}
    return record


def _attribute(attributes_of_spans: Iterable[Mapping[str, Any]], *names: str) -> Any:
    """The attribute with one of `names` of the first span that has one; None if no span
    has."""
    for attributes in attributes_of_spans:
        for name in names:
            if attributes.get(name):
                return attributes[name]
    return None
