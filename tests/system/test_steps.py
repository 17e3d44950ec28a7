"""Steps of an answer: every shape that is read, what is kept of them, and a refusal with its place of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from ragstone.system.payload import read
from ragstone.system.response import Context, ModelCall, Response, Retrieval, TokenUsage, ToolCall
from ragstone.system.worker.fields import Fields
from tests.system.service import failure

SEARCH = {"type": "retrieval", "query": "returns", "contexts": ["Returns take 30 days."], "source": "docs"}
LOOKUP = {"type": "tool", "name": "lookup_order", "arguments": {"order_id": 7}, "result": "Shipped on 3 May."}
MODEL = {"type": "model", "model": "gpt-5", "usage": {"input_tokens": 800, "output_tokens": 12}, "latency_s": 1.2}
READ = (
    Retrieval("returns", (Context("Returns take 30 days."),), "docs"),
    ToolCall("lookup_order", {"order_id": 7}, "Shipped on 3 May."),
    ModelCall("gpt-5", TokenUsage(800, 12), 1.2),
)


def response_to(steps: object, **parts: object) -> Response:
    return read("a", {"answer": "30 days.", "steps": steps, **parts}, None)


def steps_of(steps: object) -> tuple[object, ...]:
    response = response_to(steps)
    assert response.failure is None, response.failure
    return response.steps


@dataclass
class Order:
    order_id: int


SHIPPED = "Shipped on 3 May."
TOOL = {"type": "tool", "name": "a"}


@pytest.mark.parametrize(
    "call",
    [
        {"type": "tool_call", "tool": "lookup_order", "args": {"order_id": 7}, "output": SHIPPED},
        {"type": "function", "name": "lookup_order", "arguments": '{"order_id": 7}', "result": SHIPPED},
        {"type": "tool_use", "name": "lookup_order", "input": MappingProxyType({"order_id": 7}), "content": SHIPPED},
        SimpleNamespace(type="tool", name="lookup_order", parameters=Order(7), result=SHIPPED),
    ],
)
def test_a_tool_call_may_have_the_names_of_other_tools(call: object) -> None:
    assert steps_of([call]) == (READ[1],)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([SEARCH, LOOKUP, MODEL], READ),
        (json.dumps([SEARCH, LOOKUP, MODEL]), READ),
        ([{"type": "model", "name": "m", "latency_s": 0.0}], (ModelCall("m", None, 0.0),)),
        ([{"type": "llm", "input_tokens": 1, "output_tokens": 2}], (ModelCall("", TokenUsage(1, 2)),)),
        ([{**TOOL, "result": {"days": [1, 2]}}], (ToolCall("a", {}, '{"days": [1, 2]}'),)),
        ([{**TOOL, "arguments": "the red one", "result": 4.5}], (ToolCall("a", {"input": "the red one"}, "4.5"),)),
        ([{**TOOL, "arguments": {"text": "\ud800"}}], (ToolCall("a", {"text": "\ufffd"}),)),
        ([{**TOOL, "arguments": {"day": date(2026, 5, 3)}}], (ToolCall("a", {"day": "2026-05-03"}),)),
        ([{**TOOL, "error": ValueError("no such order")}], (ToolCall("a", error="no such order"),)),
        ([{**TOOL, "is_error": True}], (ToolCall("a", error="failed"),)),
        ([{**TOOL, "error": "", "arguments": ""}], (ToolCall("a"),)),
        ([{**SEARCH, "source": "x" * 500}], (Retrieval("returns", READ[0].contexts, "x" * 200),)),
        *((other, ()) for other in (3, 0.5, True, "First look up the order.", "", ["Look up", "Answer"], [])),
    ],
)
def test_steps_are_read_in_their_order_whatever_their_shape(steps: object, found: tuple[object, ...]) -> None:
    assert steps_of(steps) == found


def test_what_steps_found_is_among_the_contexts_once() -> None:
    other = {**SEARCH, "contexts": [{"id": "x", "text": "Gift cards expire."}, "Returns take 30 days."]}
    failed = {"type": "tool", "tool": "refund", "error": "no permission", "result": "Denied."}
    response = response_to([SEARCH, other, LOOKUP, LOOKUP, failed], contexts=["Returns take 30 days."])
    assert response.contexts == (
        Context("Returns take 30 days."),
        Context("Gift cards expire.", "x"),
        Context("Shipped on 3 May.", "tool:lookup_order"),
    )


def test_ids_of_documents_in_a_step_are_ids_beside_results_of_tools() -> None:
    response = response_to([{**SEARCH, "contexts": ["docs/returns.md", "docs/gifts.md"]}, LOOKUP])
    assert [context.id for context in response.contexts] == ["docs/returns.md", "docs/gifts.md", "tool:lookup_order"]
    assert [context.text for context in response.contexts] == ["", "", "Shipped on 3 May."]


@pytest.mark.parametrize(
    ("steps", "returned"),
    [([SEARCH], True), ([LOOKUP], True), ([{**SEARCH, "contexts": []}], True), ([MODEL], False), ([], False)],
)
def test_a_step_that_could_find_something_counts_as_contexts(steps: list[Any], returned: bool) -> None:
    assert response_to(steps).contexts_returned is returned


def test_a_retriever_may_return_steps_alone() -> None:
    retrieves = Fields(contexts_only=True)
    response = read("a", {"steps": [SEARCH]}, None, fields=retrieves)
    assert (response.contexts, response.steps) == (READ[0].contexts, READ[:1])
    assert "Expected contexts" in failure(read("a", {"steps": 3}, None, fields=retrieves)).message


def test_tokens_of_model_calls_count_unless_the_answer_names_its_own() -> None:
    assert response_to([MODEL, MODEL]).usage == TokenUsage(1600, 24)
    assert response_to([MODEL], usage={"input_tokens": 5, "output_tokens": 6}).usage == TokenUsage(5, 6)
    assert response_to([SEARCH]).usage is None


def test_the_messages_of_a_graph_are_steps() -> None:
    def message(kind: str, content: str, **fields: object) -> dict[str, Any]:
        return {"type": kind, "content": content, **fields}

    def calls(*items: dict[str, Any]) -> dict[str, Any]:
        usage = {"input_tokens": 9, "output_tokens": 1}
        return message("ai", "", tool_calls=list(items), usage_metadata=usage, response_metadata={"model_name": "m"})

    documents = [SimpleNamespace(page_content="Returns take 30 days.", metadata={"source": "returns.md"})]
    messages = [
        message("human", "an earlier question"),
        calls({"name": "old", "args": {}, "id": "0"}),
        message("tool", "old", tool_call_id="0"),
        message("human", "And order 7?"),
        calls({"name": "search", "args": {"query": "returns"}, "id": 1}, {"name": "order", "args": {"id": 7}, "id": 2}),
        message("tool", "boom", tool_call_id=2, status="error"),
        message("tool", "Returns take 30 days.", tool_call_id=1, artifact=documents),
        message("tool", "of no call", tool_call_id=3, artifact=documents),
        message("ai", "30 days."),
    ]
    response = read("a", {"messages": messages}, None)
    assert response.answer == "30 days."
    assert response.steps == (
        ModelCall("m", TokenUsage(9, 1)),
        Retrieval("returns", (Context("Returns take 30 days.", "returns.md"),), "search"),
        ToolCall("order", {"id": 7}, error="boom"),
    )


def test_a_path_leads_to_steps_and_an_empty_one_to_none() -> None:
    reply = {"answer": "yes", "steps": 3, "meta": {"trace": [LOOKUP]}}
    assert read("a", reply, None, fields=Fields(steps="meta.trace")).steps == (READ[1],)
    assert read("a", reply, None, fields=Fields(steps="")).steps == ()
    assert "The steps are 3 (int)" in failure(read("a", reply, None, fields=Fields(steps="steps"))).message


WIDE: list[Any] = []
for _ in range(50):
    WIDE = [WIDE] * 10


def broken() -> Iterator[object]:
    yield LOOKUP
    raise RuntimeError("lost the trace")


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([SEARCH, "thinking"], "Step 2: 'thinking' (str) is no retrieval, tool call or model call."),
        ([LOOKUP, {"type": "tool"}], "Step 2: "),
        ([{**SEARCH, "contexts": [5]}], "Step 1: Context 1 is 5 (int)"),
        ([{**SEARCH, "query": "x" * 100_001}], "Step 1: more than 100,000 characters in its query."),
        ([{**LOOKUP, "arguments": {"a": "x" * 100_000}}], "Step 1: more than 100,000 characters in its arguments."),
        ([{**LOOKUP, "arguments": {("a", "b"): 1}}], "Step 1: its arguments can't be written as JSON"),
        ([{**LOOKUP, "arguments": nested(5_000)}], "more than 32 levels of nesting"),
        ([{**LOOKUP, "arguments": CIRCLE}], "Circular reference"),
        ([{**LOOKUP, "arguments": WIDE}], "more than 100,000 characters"),
        ([{**LOOKUP, "result": "x" * 1_000_001}], "Step 1: more than 1,000,000 characters in its result."),
        ([{**SEARCH, "contexts": ["x"] * 5_001}] * 2, "more than 10,000 contexts"),
        (broken(), "RuntimeError: lost the trace"),
    ],
)
def test_a_bad_step_is_refused_with_its_place(steps: object, message: str) -> None:
    assert message in failure(response_to(steps)).message


def test_steps_are_read_up_to_the_limits_and_no_further() -> None:
    made = []

    def many() -> Iterator[object]:
        for number in range(1_000_000):
            made.append(number)
            yield LOOKUP

    assert failure(response_to(many())).message == "More than 1,000 steps were returned for one question."
    assert len(made) == 1_001
    assert len(steps_of([LOOKUP] * 1_000)) == 1_000
    largest = {**SEARCH, "query": "x" * 100_000, "contexts": ["x"] * 5_000}
    assert len(steps_of([largest] * 2)) == 2
    assert len(steps_of([{**LOOKUP, "arguments": nested(32), "result": "x" * 1_000_000}])) == 1
