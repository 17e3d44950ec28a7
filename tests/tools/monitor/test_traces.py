"""Traces of each shape become one interaction each, wherever their spans are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragstone.tools.monitor.interaction import Interaction, Reader
from ragstone.tools.monitor.logs import Line, Place
from ragstone.tools.monitor.traces import interactions_of, is_trace

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
NOW = START + timedelta(hours=1)


def read(*records: dict[str, Any], now: datetime = NOW) -> list[Interaction]:
    assert is_trace(records[0])
    lines = [Line(json.loads(json.dumps(one)), None, n, Place()) for n, one in enumerate(records, 1)]
    reader = Reader({}, lambda value: f"<{value}>".encode())
    return [reader.read(line.record) for line in interactions_of(lines, now) if line.record is not None]


def otlp(
    name: str, span: str, parent: str = "", *, seconds: float = 2.0, error: str = "", **attributes: Any
) -> dict[str, Any]:
    start = int(START.timestamp() * 1e9)
    pairs = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()]
    one = {
        "traceId": "t1", "spanId": span, "parentSpanId": parent, "name": name, "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(seconds * 1e9)), "attributes": pairs,
        "status": {"code": 2, "message": error} if error else {},
    }  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}


def retrieved(*texts: str) -> dict[str, Any]:
    found: dict[str, Any] = {"openinference__span__kind": "RETRIEVER"}
    for n, text in enumerate(texts):
        found |= {f"retrieval.documents.{n}.document.content": text, f"retrieval.documents.{n}.document.id": f"d{n}"}
    return found


def test_openinference_over_otlp_in_several_lines_and_in_any_order() -> None:
    (one,) = read(
        otlp("retrieve", "s2", "s1", seconds=1, **retrieved("Shoes: 30 days.", "Hats: 10 days.")),
        otlp(
            "rag", "s1", input__value='{"question": "How long?"}', output__value="30 days.",
            session__id="s", user__id="u", openinference__span__kind="CHAIN",
        ),
    )  # fmt: skip
    assert (one.query, one.answer, one.latency_s, one.route) == ("How long?", "30 days.", 2.0, "rag")
    assert one.sources == ({"text": "Shoes: 30 days.", "id": "d0"}, {"text": "Hats: 10 days.", "id": "d1"})
    assert (one.results, one.user, one.session, one.time) == (2, b"<u>", b"<s>", START)


def test_a_retriever_that_finds_nothing_and_a_root_that_fails() -> None:
    (one,) = read(otlp("rag", "s1", error="Timeout", input__value="q"), otlp("r", "s2", "s1", **retrieved()))
    assert (one.sources, one.results, one.error) == ((), 0, "Timeout")


def test_genai_attributes_have_no_documents() -> None:
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}])
    (one,) = read(
        otlp("chat m", "s1", gen_ai__input__messages=said, gen_ai__output__messages=said.replace("How long?", "30"))
    )
    assert (one.query, one.answer, one.sources, one.results) == ("How long?", "30", None, None)


def test_genai_documents_are_counted_by_their_ids() -> None:
    (one,) = read(
        otlp("rag", "s1", input__value="q", output__value="a"),
        otlp("retrieval", "s2", "s1", gen_ai__retrieval__documents='[{"id": "d1", "score": 0.9}]'),
    )
    assert (one.sources, one.results) == (({"id": "d1", "score": 0.9},), 1)


def test_a_trace_that_may_still_grow_is_left_for_the_next_job() -> None:
    spans = otlp("rag", "s1", input__value="q", output__value="a")
    assert read(spans, now=START + timedelta(minutes=5)) == []
    assert len(read(spans, now=START + timedelta(minutes=11))) == 1


def phoenix(**more: Any) -> dict[str, Any]:
    return {
        "name": "rag", "span_kind": "CHAIN", "parent_id": None, "start_time": START.isoformat(),
        "end_time": (START + timedelta(seconds=3)).isoformat(), "status_code": "OK",
        "context": {"trace_id": "t1", "span_id": "s1"},
        "attributes": {"input": {"value": "How long?"}, "output.value": "30 days."}, **more,
    }  # fmt: skip


def test_spans_of_phoenix_with_nested_or_flat_attributes_and_in_pages() -> None:
    documents = {"retrieval": {"documents": [{"document": {"content": "Shoes: 30 days."}}]}}
    retriever = phoenix(
        name="r",
        span_kind="RETRIEVER",
        parent_id="s1",
        context={"trace_id": "t1", "span_id": "s2"},
        attributes=documents,
    )
    for records in ([phoenix(), retriever], [{"data": [phoenix(), retriever], "next_cursor": None}]):
        (one,) = read(*records)
        assert (one.query, one.answer, one.latency_s) == ("How long?", "30 days.", 3.0)
        assert one.sources == ({"text": "Shoes: 30 days."},)


def test_traces_of_langfuse() -> None:
    trace = {
        "id": "t1", "timestamp": START.isoformat(), "name": "rag", "input": {"query": "How long?"},
        "output": "30 days.",
        "userId": "u", "sessionId": "s", "latency": 1.5, "projectId": "p",
        "observations": [{"type": "RETRIEVER", "output": [{"content": "Shoes: 30 days."}]}],
    }  # fmt: skip
    (one,) = read({"data": [trace], "meta": {"page": 1}})
    assert (one.query, one.answer, one.latency_s, one.user) == ("How long?", "30 days.", 1.5, b"<u>")
    assert one.sources == ({"content": "Shoes: 30 days."},)
    (again,) = read({**trace, "observations": ["o1"]})
    assert again.sources is None


def test_a_plain_log_is_no_trace() -> None:
    assert not is_trace({"timestamp": 1, "input": "q", "output": "a", "data": [{"x": 1}], "context": "text"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["scopeSpans", "spans", "attributes", "value", "key", "traceId", "status", "input"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, JSON)
def test_hostile_traces_raise_nothing(spans: Any, attributes: Any) -> None:
    records = [{"resourceSpans": spans}, {**phoenix(), "attributes": attributes}, {"data": [phoenix(), spans]}]
    for record in records:
        list(interactions_of([Line(record, None, 1, Place())], NOW))
