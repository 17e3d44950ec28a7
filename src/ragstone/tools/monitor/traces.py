"""Traces as interactions: OTLP JSON with OpenInference's or GenAI's attributes, and exports of Phoenix and Langfuse.

A trace is put together from its spans, wherever in the file they are: question and answer from the root, what was
retrieved from its retriever spans. GenAI's conventions have ids of documents and no texts, so such traces are counted,
and not judged.

Sources of the shapes, as of November 2026: OTLP/JSON (opentelemetry-proto, one request per line as the collector's file
exporter writes it), OpenInference's semantic conventions, OpenTelemetry's GenAI conventions, Phoenix's spans (REST
/v1/projects/NAME/spans, and exported as JSON Lines), Langfuse's /api/public/traces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ragstone.formatting import counted
from ragstone.tools.monitor.logs import Damaged, Line, Place

MAX_SPANS = 1_000_000
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,4})\.document\.(content|id|score)")
_GENAI_DOCUMENTS = "gen_ai.retrieval.documents"
_LANGFUSE = {"latency_s": "latency", "user_id": "userId", "session_id": "sessionId", "route": "name"}
_LANGFUSE |= {name: name for name in ("id", "timestamp")}


@dataclass(frozen=True, slots=True)
class _Span:
    trace: str
    own: str
    parent: str
    name: str
    start: float
    end: float
    attributes: Mapping[str, Any]
    error: str | None


def is_trace(record: Mapping[str, Any]) -> bool:
    """Whether a record holds spans or traces, to be read with `interactions_of`."""
    return "resourceSpans" in record or _is_phoenix(record) or _pages(record) is not None or _is_langfuse(record)


def interactions_of(lines: Iterable[Line], now: datetime, *, settled_s: float = 600.0) -> Iterator[Line]:
    """A record per trace, of files whose first record `is_trace`. Broken lines are passed on.

    A trace whose last span ended less than `settled_s` seconds ago may lack some: it is left for the next job. Raises
    Damaged for more than a million spans.
    """
    traces: dict[str, tuple[int, list[_Span]]] = {}
    count = 0
    for line in lines:
        if line.record is None:
            yield line
            continue
        for one in _pages(line.record) or [line.record]:
            if not isinstance(one, Mapping):
                continue
            if "resourceSpans" not in one and not _is_phoenix(one):
                yield Line(_langfuse(one), None, line.number, Place())
                continue
            for span in _otlp(one) if "resourceSpans" in one else _phoenix(one):
                count += 1
                if count > MAX_SPANS:
                    raise Damaged(
                        f"has more than {counted(MAX_SPANS, 'span')}: give the spans of each day their own file"
                    )
                traces.setdefault(span.trace, (line.number, []))[1].append(span)
    for name, (number, spans) in traces.items():
        if max(span.end for span in spans) <= now.timestamp() - settled_s:
            yield Line(_interaction(name, spans), None, number, Place())


def _pages(record: Mapping[str, Any]) -> list[Any] | None:
    """The items of a page of an API: Phoenix's spans or Langfuse's traces."""
    items = record.get("data")
    if isinstance(items, list) and items and isinstance(items[0], Mapping):
        return items if _is_phoenix(items[0]) or _is_langfuse(items[0]) else None
    return None


def _is_phoenix(record: Mapping[str, Any]) -> bool:
    context = record.get("context")
    return isinstance(context, Mapping) and "trace_id" in context and "start_time" in record


def _is_langfuse(record: Mapping[str, Any]) -> bool:
    return {"input", "output", "timestamp"} <= record.keys() and bool({"observations", "projectId"} & record.keys())


def _langfuse(record: Mapping[str, Any]) -> dict[str, Any]:
    found = {field: record.get(name) for field, name in _LANGFUSE.items()}
    found |= {"query": _said(record.get("input")), "answer": _said(record.get("output"))}
    spans = _list(record, "observations")
    retrievers = [one for one in spans if str(one.get("type", "")).upper() == "RETRIEVER"]
    if retrievers:
        documents = [one for span in retrievers for one in _documents(span.get("output"))]
        found |= {"sources": documents, "results": len(documents)}
    failed = [one for one in spans if one.get("level") == "ERROR"]
    if failed and not found["answer"]:
        found["error"] = str(failed[0].get("statusMessage") or "error")
    return found


def _documents(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("documents", "results", "matches") if name in value), [])
    return value if isinstance(value, list) else []


def _otlp(record: Mapping[str, Any]) -> Iterator[_Span]:
    for resource in _list(record, "resourceSpans"):
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                status = span.get("status")
                status = status if isinstance(status, Mapping) else {}
                failed = status.get("code") in (2, "STATUS_CODE_ERROR")
                yield _Span(
                    str(span.get("traceId")), str(span.get("spanId")), str(span.get("parentSpanId") or ""),
                    str(span.get("name", "")), _nano(span.get("startTimeUnixNano")), _nano(span.get("endTimeUnixNano")),
                    _attributes(_list(span, "attributes")), str(status.get("message") or "error") if failed else None,
                )  # fmt: skip


def _list(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = holder.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        value = pair.get("value")
        if isinstance(value, Mapping) and value:
            name, inner = next(iter(value.items()))
            found[str(pair.get("key"))] = _number(inner) if name == "intValue" else inner
    return found


def _phoenix(record: Mapping[str, Any]) -> Iterator[_Span]:
    context = record["context"]
    given = record.get("attributes")
    attributes = dict(_flat(given)) if isinstance(given, Mapping) else {}
    attributes.setdefault("openinference.span.kind", record.get("span_kind"))
    failed = record.get("status_code") == "ERROR"
    yield _Span(
        str(context["trace_id"]), str(context.get("span_id")), str(record.get("parent_id") or ""),
        str(record.get("name", "")), _iso(record.get("start_time")), _iso(record.get("end_time")), attributes,
        str(record.get("status_message") or "error") if failed else None,
    )  # fmt: skip


def _flat(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Nested attributes with dotted names, as OpenInference writes them."""
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping) or depth >= 12:
        yield prefix, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key), depth + 1)


def _interaction(trace: str, spans: list[_Span]) -> dict[str, Any]:
    ordered = sorted(spans, key=lambda span: span.start)
    known = {span.own for span in ordered}
    root = next((span for span in ordered if span.parent not in known), ordered[0])
    rest = [root, *(span for span in ordered if span is not root)]
    models = [span for span in ordered if _kind(span) == "LLM"]
    retrievers = [span for span in ordered if _kind(span) == "RETRIEVER" or _GENAI_DOCUMENTS in span.attributes]
    found: dict[str, Any] = {
        "id": trace,
        "timestamp": datetime.fromtimestamp(root.start, UTC).isoformat(),
        "query": _of(rest, "input.value", "gen_ai.input.messages"),
        "answer": _of([root, *reversed(models)], "output.value", "gen_ai.output.messages"),
        "latency_s": max(0.0, root.end - root.start),
        "user_id": _plain(rest, "user.id", "enduser.id"),
        "session_id": _plain(rest, "session.id", "gen_ai.conversation.id"),
        "route": root.name,
        "error": root.error,
    }
    if retrievers:
        documents = [one for span in retrievers for one in _retrieved(span)]
        found |= {"sources": documents, "results": len(documents)}
    return found


def _kind(span: _Span) -> str:
    return str(span.attributes.get("openinference.span.kind") or "").upper()


def _retrieved(span: _Span) -> list[dict[str, Any]]:
    listed = span.attributes.get(_GENAI_DOCUMENTS)
    if isinstance(listed, str):
        try:
            listed = json.loads(listed)
        except (ValueError, RecursionError):
            listed = []
    if isinstance(listed, list):
        return [dict(one) for one in listed if isinstance(one, Mapping)]
    found: dict[int, dict[str, Any]] = {}
    for name, value in span.attributes.items():
        place = _DOCUMENT.fullmatch(name)
        if place is not None:
            found.setdefault(int(place[1]), {})["text" if place[2] == "content" else place[2]] = value
    return [found[number] for number in sorted(found)]


def _of(spans: Iterable[_Span], *names: str) -> str:
    return next((said for span in spans for name in names if (said := _said(span.attributes.get(name)))), "")


def _plain(spans: Iterable[_Span], *names: str) -> Any:
    return next((span.attributes[name] for span in spans for name in names if span.attributes.get(name)), None)


_SAID = ("question", "query", "input", "user_input", "answer", "response", "output", "result", "content", "text")


def _said(value: Any, depth: int = 0) -> str:
    """The text in an input or an output: itself, or that of its JSON; the last turn of a chat."""
    if depth > 6:
        return ""
    if isinstance(value, str):
        if value[:1] in "{[" and value[:1]:
            try:
                return _said(json.loads(value), depth + 1) or value
            except (ValueError, RecursionError):
                return value
        return value
    if isinstance(value, list):
        return next((said for one in reversed(value) if (said := _said(one, depth + 1))), "")
    if isinstance(value, Mapping):
        for name in (*_SAID, "messages", "parts"):
            if name in value and (said := _said(value[name], depth + 1)):
                return said
    return ""


def _nano(value: Any) -> float:
    return _number(value) / 1e9


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return found if 0.0 <= found < 1e19 else 0.0


def _iso(value: Any) -> float:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return 0.0
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
