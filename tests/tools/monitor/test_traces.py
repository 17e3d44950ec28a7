"""Traces become one interaction each, wherever their spans are."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.tools.monitor.interactions import Interaction, read_interaction
from ragstone.tools.monitor.traces import interactions_of

START = datetime(2026, 11, 22, 10, tzinfo=UTC)


def read(*records: dict[str, Any]) -> list[Interaction]:
    sent = json.loads(json.dumps(records))
    return [read_interaction(record, {}) for record in interactions_of(sent, "log")]


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
    assert (one.question, one.answer, one.latency_s) == ("How long?", "30 days.", 2.0)
    assert one.sources == ({"content": "Shoes: 30 days.", "id": "d0"}, {"content": "Hats: 10 days.", "id": "d1"})
    assert (one.results, one.user_id, one.session_id, one.timestamp) == (2, "u", "s", START)


def test_a_retriever_that_finds_nothing_and_a_root_that_fails() -> None:
    (one,) = read(otlp("rag", "s1", error="Timeout", input__value="q"), otlp("r", "s2", "s1", **retrieved()))
    assert (one.sources, one.results, one.error) == ((), 0, True)


def test_genai_attributes_have_no_documents() -> None:
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}])
    answered = said.replace("How long?", "30")
    (one,) = read(otlp("chat m", "s1", gen_ai__input__messages=said, gen_ai__output__messages=answered))
    assert (one.question, one.answer, one.sources, one.results) == ("How long?", "30", None, None)


def test_genai_documents_are_counted_by_their_ids() -> None:
    found: dict[str, Any] = {
        "gen_ai__operation__name": "retrieval",
        "gen_ai__retrieval__documents": '[{"id": "d1", "score": 0.9}]',
    }
    (one,) = read(otlp("rag", "s1", input__value="q", output__value="a"), otlp("retrieval", "s2", "s1", **found))
    assert (one.sources, one.results) == (({"id": "d1", "score": 0.9},), 1)


def test_a_plain_log_is_no_trace() -> None:
    record = {"timestamp": 1, "input": "q", "output": "a", "data": [{"x": 1}], "context": "text"}
    assert list(interactions_of([record], "log")) == [record]


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
    trace = otlp("rag", "s1", input__value="q")
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = attributes
    list(interactions_of([{"resourceSpans": spans}, trace], "log"))


def test_more_spans_than_fit_in_memory_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"log: has more than 1,000,000 spans"):
        list(interactions_of(itertools.repeat(otlp("rag", "s1"), 1_000_001), "log"))
