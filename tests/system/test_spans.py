"""Spans become steps: with OpenInference's attributes and with GenAI's, in a reply and in a file beside answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.interactions import read_interactions
from ragstone.golden.sample import Sample
from ragstone.system.payload import read
from ragstone.system.response import Context, ModelCall, Retrieval, TokenUsage, ToolCall
from ragstone.system.worker.fields import Fields
from ragstone.system.worker.spans import spans_in, step_of_span, trace_of


class StatusCode(Enum):
    ERROR = 2


SECOND = 1_000_000_000

SEARCH = {
    "openinference.span.kind": "RETRIEVER",
    "input.value": '{"query": "returns"}',
    "retrieval.documents.1.document.content": "Gift cards expire.",
    "retrieval.documents.0.document.content": "Returns take 30 days.",
    "retrieval.documents.0.document.id": "returns.md",
    "retrieval.documents.0.document.score": 0.9,
}
LOOKUP = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "lookup_order",
    "gen_ai.tool.call.arguments": '{"order_id": 7}',
    "gen_ai.tool.call.result": "Shipped on 3 May.",
}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-5",
    "gen_ai.usage.input_tokens": 800,
    "gen_ai.usage.output_tokens": 12,
}
GENAI = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "d1", "score": 0.5}]'}
RETRIEVER = {"openinference.span.kind": "RETRIEVER"}
TOOL = {"openinference.span.kind": "tool", "tool.name": "t"}
COUNTS = {"llm.token_count.prompt": 3, "llm.token_count.completion": 4}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "gpt-5"}
STEPS = (
    Retrieval("returns", (Context("Returns take 30 days.", "returns.md", 0.9), Context("Gift cards expire.")), "span"),
    ToolCall("lookup_order", {"order_id": 7}, "Shipped on 3 May."),
    ModelCall("gpt-5", TokenUsage(800, 12), 2.0),
)


def otlp_value(value: object) -> dict[str, object]:
    if isinstance(value, bool | str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def span(attributes: Mapping[str, object], start: int, **fields: object) -> dict[str, Any]:
    """A span of OTLP/JSON that takes two seconds."""
    return {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": f"s{start}",
        "parentSpanId": "gone",
        "name": "span",
        "startTimeUnixNano": str(start * SECOND),
        "endTimeUnixNano": str((start + 2) * SECOND),
        "attributes": [{"key": key, "value": otlp_value(value)} for key, value in attributes.items()],
        **fields,
    }


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    parts = [{"scopeSpans": [{"spans": list(part)}]} for part in (spans[:1], spans[1:])]
    return {"resourceSpans": parts}


SHUFFLED = [span(CHAT, 3), span(AGENT, 0), span(LOOKUP, 2), span(SEARCH, 1)]


@pytest.mark.parametrize(
    "spans", [SHUFFLED, document(*SHUFFLED), [document(*SHUFFLED[:2]), document(*SHUFFLED[2:])], json.dumps(SHUFFLED)]
)
def test_spans_in_any_order_are_steps_by_their_start(spans: object) -> None:
    response = read("a", {"answer": "30 days.", "spans": spans}, None)
    assert response.steps == STEPS
    assert response.contexts[0].id == "returns.md"
    assert response.usage == TokenUsage(800, 12)


def test_spans_as_the_sdk_has_and_writes_them() -> None:
    as_object = SimpleNamespace(
        name="span", context=SimpleNamespace(trace_id=1), start_time=SECOND, end_time=3 * SECOND,
        attributes={**LOOKUP, "gen_ai.tool.call.result": None},
        status=SimpleNamespace(status_code=StatusCode.ERROR, description="no"),
    )  # fmt: skip
    as_json = {
        "name": "span", "context": {"trace_id": "0x1"}, "start_time": "2026-11-22T10:00:00.000000Z",
        "end_time": "2026-11-22T10:00:02.000000Z", "attributes": CHAT, "status": {"status_code": "OK"},
    }  # fmt: skip
    response = read("a", {"answer": "x", "spans": [as_json, as_object]}, None)
    assert response.steps == (ToolCall("lookup_order", {"order_id": 7}, None, "no"), STEPS[2])


@pytest.mark.parametrize(
    ("attributes", "fields", "step"),
    [
        (
            {**GENAI, "gen_ai.retrieval.query.text": "q", "gen_ai.data_source.id": "kb"},
            {},
            Retrieval("q", (Context("", "d1", 0.5),), "kb"),
        ),
        (
            {**RETRIEVER, "retrieval.documents": '[{"document.content": "x"}]'},
            {},
            Retrieval("", (Context("x"),), "span"),
        ),
        ({**TOOL, "tool.parameters": '{"a": 1}', "output.value": "r"}, {}, ToolCall("t", {"a": 1}, "r")),
        (
            {**TOOL, "tool.name": None, "tool.parameters": '{"properties": {}}', "input.value": "red"},
            {"status": {"code": 2, "message": "no such tool"}},
            ToolCall("span", {"input": "red"}, None, "no such tool"),
        ),
        (
            {**TOOL, "error.type": "timeout"},
            {"status": {"code": "STATUS_CODE_ERROR"}},
            ToolCall("t", {}, None, "timeout"),
        ),
        (
            {"openinference.span.kind": "LLM", "llm.model_name": "m", **COUNTS},
            {"endTimeUnixNano": "0"},
            ModelCall("m", TokenUsage(3, 4)),
        ),
        ({"gen_ai.operation.name": "chat"}, {"startTimeUnixNano": "soon"}, ModelCall("")),
    ],
)
def test_attributes_of_both_conventions(attributes: dict[str, object], fields: dict[str, object], step: object) -> None:
    response = read("a", {"answer": "x", "spans": [span(attributes, 1, **fields)]}, None)
    assert response.failure is None
    assert response.steps == (step,)


def test_spans_of_a_text_are_something_else() -> None:
    response = read("a", {"answer": "x", "spans": [{"start": 0, "end": 5}, [0, 5]]}, None)
    assert (response.failure, response.steps) == (None, ())
    traced = read("a", {"answer": "x", **document(*SHUFFLED)}, None)
    assert traced.steps == STEPS


def test_other_spans_are_no_steps() -> None:
    for attributes in (AGENT, {"openinference.span.kind": "CHAIN"}, {"gen_ai.operation.name": "embeddings"}, {}):
        assert step_of_span(span(attributes, 1)) is None
    assert spans_in([{"query": "returns", "contexts": []}]) is None
    assert spans_in({"spans": []}) is None


def test_attributes_of_any_type_are_read_and_deep_ones_left_out() -> None:
    listed = {"arrayValue": {"values": [{"kvlistValue": {"values": [{"key": "id", "value": {"stringValue": "d1"}}]}}]}}
    deep: dict[str, Any] = {"stringValue": "x"}
    for _ in range(300):
        deep = {"arrayValue": {"values": [deep]}}
    kind = {"key": "gen_ai.operation.name", "value": {"stringValue": "retrieval"}}
    found = {"key": "gen_ai.retrieval.documents", "value": listed}
    pairs = [kind, found, {"key": "deep", "value": deep}, 5, {"key": None}]
    step = step_of_span({**span({}, 1), "attributes": pairs})
    assert step == {"type": "retrieval", "query": "", "contexts": [{"id": "d1"}], "source": "span"}


ODD = st.sampled_from(["9" * 5_000, "0001-01-01", "-1"])
KEYS = st.sampled_from(["values", "stringValue", "id"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=5,
)
NAMES = st.sampled_from([*SEARCH, *LOOKUP, *CHAT, *GENAI, *TOOL, *COUNTS, "tool.parameters", "llm.model_name"])
VALUES = st.dictionaries(st.sampled_from(["intValue", "arrayValue", "kvlistValue", "stringValue"]), JSON) | JSON


@given(
    st.lists(st.fixed_dictionaries({"key": NAMES, "value": VALUES})) | st.dictionaries(NAMES, JSON) | JSON,
    st.dictionaries(st.sampled_from(["startTimeUnixNano", "end_time", "status", "name", "context", "traceId"]), JSON),
)
def test_a_span_of_any_shape_is_read_or_none(attributes: object, fields: dict[str, Any]) -> None:
    odd = {"spanId": "1", **fields, "attributes": attributes}
    step_of_span(odd)
    assert trace_of(odd) == trace_of(odd).lower()


# --- beside recorded answers -------------------------------------------------------------------------------------


def ask(room: Any, *records: dict[str, Any]) -> list[Any]:
    room.write("outputs.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    return list(room.ask_samples("file:outputs.jsonl", *(Sample(record["id"], "?") for record in records)))


TRACED = {"id": "a", "answer": "30 days.", "trace_id": "5b8efff7-9803-8103-d269-b633813fc60c"}


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, SHUFFLED)) + "\n\n",
        json.dumps(document(*SHUFFLED[:2])) + "\n" + json.dumps(document(*SHUFFLED[2:])),
    ],
)
def test_recorded_answers_have_the_steps_of_their_traces(room: Any, text: str) -> None:
    room.write("outputs.spans.jsonl", text)
    other = {"id": "b", "answer": "x", "steps": [{"tool": "own"}], "trace_id": TRACED["trace_id"]}
    responses = ask(room, TRACED, other, {"id": "c", "answer": "x"})
    assert [response.steps for response in responses] == [STEPS, (ToolCall("own"),), ()]


def test_recorded_interactions_have_the_steps_of_their_traces(room: Any) -> None:
    room.write("outputs.spans.jsonl", json.dumps(document(*SHUFFLED)))
    path = room.write("outputs.jsonl", json.dumps({**TRACED, "question": "How long?"}))
    ((_, response),) = read_interactions(path, {}, Fields()).answers
    assert response.steps == STEPS


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (json.dumps(span(CHAT, 1)) + "\n{", "outputs.spans.jsonl:2", "Expecting property name"),
        (json.dumps(span(CHAT, 1)) + '\n{"a": 1}', "outputs.spans.jsonl:2", "neither spans nor a document of OTLP"),
        ("[" * 100_000, "outputs.spans.jsonl:1", "recursion"),
        (json.dumps({**span(CHAT, 1), "traceId": "other"}), "file:outputs.jsonl", "no recorded answer has"),
    ],
)
def test_spans_that_fit_no_answer_are_an_error_with_their_place(room: Any, text: str, where: str, message: str) -> None:
    room.write("outputs.spans.jsonl", text)
    with pytest.raises(SystemUnderTestError) as caught:
        ask(room, TRACED)
    assert (caught.value.where, message in caught.value.message) == (where, True)
