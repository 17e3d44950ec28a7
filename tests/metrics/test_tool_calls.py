"""Tool selection, arguments and errors, with the worked examples of peers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.golden.sample import ExpectedCall, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.metrics.tool_calls import tool_mistakes
from ragstone.system.response import Context, ModelCall, Response, Retrieval, Step, ToolCall


def sample(*tools: ExpectedCall, in_order: bool = False) -> Sample:
    return Sample("a", "Where is my order?", tools=tools, tools_in_order=in_order)


def expected(*names: str, **arguments: Any) -> ExpectedCall:
    return ExpectedCall(names, arguments or None)


def response(*steps: Step) -> Response:
    return Response("a", "It is on its way.", steps=steps)


def calls(*names: str) -> Response:
    return response(*map(ToolCall, names))


def score(name: str, golden: Sample, answer: Response) -> Score:
    (metric,) = select_metrics([name])
    return metric.score(golden, answer, Judgements())


def value(name: str, golden: Sample, answer: Response) -> float:
    found = score(name, golden, answer)
    assert isinstance(found, Scored)
    return found.value


def mistakes(golden: Sample, answer: Response) -> list[str]:
    return list(map(str, tool_mistakes(golden, answer)))


A, B, C = expected("a"), expected("b"), expected("c")


@pytest.mark.parametrize(
    ("golden", "answer", "f1"),
    [
        # RAGAS, tool call F1 = 2TP / (2TP + FP + FN): an extra call gives 1 TP, 1 FP, 0 FN.
        (sample(expected("get_weather")), calls("get_weather", "get_calendar"), 2 / 3),
        (sample(expected("get_weather")), calls("send_email"), 0.0),
        (sample(expected("get_weather")), calls(), 0.0),
        (sample(expected("get_weather"), expected("get_weather")), calls("get_weather", "get_weather"), 1.0),
        (sample(A, B, C), calls("a", "c"), 4 / 5),
        (sample(A), calls("a", "a"), 2 / 3),  # a repeated call is an extra one
        (sample(A, B), calls("b", "a"), 1.0),  # in any order
        (sample(expected("a", "b")), calls("b"), 1.0),  # any of them
        # The first expected call must leave "a" to the second.
        (sample(expected("a", "b"), A), calls("a", "b"), 1.0),
        (sample(A, expected("a", "b"), expected("b", "c")), calls("c", "b", "a"), 1.0),
        # In order: the longest common subsequence of abc and bca is bc.
        (sample(A, B, C, in_order=True), calls("a", "b", "c"), 1.0),
        (sample(A, B, C, in_order=True), calls("b", "c", "a"), 4 / 6),
        (sample(A, B, in_order=True), calls("b", "a"), 2 / 4),
        (sample(A, B, in_order=True), calls("a", "x", "b"), 4 / 5),
        (sample(A, expected("b", "c"), in_order=True), calls("c", "a", "c"), 4 / 5),
    ],
)
def test_selection_is_the_f1_of_the_names(golden: Sample, answer: Response, f1: float) -> None:
    assert value("tool_selection", golden, answer) == pytest.approx(f1)


def test_the_note_is_the_share_of_expected_tools_that_are_called() -> None:
    # DeepEval's example: WebSearch and ToolQuery are called where WebSearch is expected, tool correctness 1 of 1.
    found = score("tool_selection", sample(expected("WebSearch")), calls("WebSearch", "ToolQuery"))
    assert found == Scored(2 / 3, note="1 of 1 expected called, 1 unexpected")


def test_a_retrieval_is_a_call_of_its_source_where_that_is_expected() -> None:
    search = Retrieval("kettle", source="search")
    assert value("tool_selection", sample(expected("search", query="kettle")), response(search)) == 1.0
    assert value("tool_arguments", sample(expected("search", query="kettle")), response(search)) == 1.0
    assert value("tool_selection", sample(A), response(search, ToolCall("a"))) == 1.0


@pytest.mark.parametrize(
    ("wanted", "actual", "right"),
    [
        ({"id": 7}, {"id": 7}, True),
        ({"id": 7}, {"id": 8}, False),
        ({"id": 7}, {}, False),
        ({"id": 7}, {"id": 7, "note": "x"}, True),  # a subset
        ({"id": 7}, {"id": "7"}, True),  # text that is a number, where a number is expected
        ({"id": 7}, {"id": " 7.0 "}, True),
        ({"id": "7"}, {"id": 7}, False),
        ({"id": 7}, {"id": "seven"}, False),
        ({"id": 7}, {"id": True}, False),
        ({"id": True}, {"id": 1}, False),
        ({"id": True}, {"id": True}, True),
        ({"id": None}, {"id": None}, True),
        ({"id": None}, {}, False),
        ({"id": 12345678901234567891}, {"id": "12345678901234567890"}, False),
        ({"id": 10**400}, {"id": 1.5}, False),
        ({"city": "Arden"}, {"city": " Arden\n"}, True),
        ({"city": "Arden"}, {"city": "arden"}, False),
        ({"to": {"city": "Arden"}}, {"to": {"city": "Arden", "zip": "1"}}, True),  # in nested objects as well
        ({"to": {"city": "Arden"}}, {"to": "Arden"}, False),
        ({"ids": [1, {"a": "x"}]}, {"ids": ["1", {"a": "x", "b": 2}]}, True),
        ({"ids": [1, 2]}, {"ids": [2, 1]}, False),
        ({"ids": [1, 2]}, {"ids": [1, 2, 3]}, False),
    ],
)
def test_arguments_are_a_subset(wanted: dict[str, Any], actual: dict[str, Any], right: bool) -> None:
    golden = sample(ExpectedCall(("lookup",), wanted))
    assert value("tool_arguments", golden, response(ToolCall("lookup", actual))) == float(right)


@pytest.mark.parametrize(
    ("tolerance", "actual", "right"),
    [(0.0, 101, False), (0.01, 101, True), (0.01, 99.0, True), (0.01, "101", True), (0.01, 101.1, False)],
)
def test_numbers_may_differ_by_a_tolerance(tolerance: float, actual: object, right: bool) -> None:
    golden = sample(ExpectedCall(("pay",), {"amount": 100}, tolerance=tolerance))
    assert value("tool_arguments", golden, response(ToolCall("pay", {"amount": actual}))) == float(right)


def test_exact_arguments_may_have_no_others() -> None:
    golden = sample(ExpectedCall(("lookup",), {"to": {"id": 7}}, match="exact"))
    assert value("tool_arguments", golden, response(ToolCall("lookup", {"to": {"id": 7}}))) == 1.0
    answer = response(ToolCall("lookup", {"to": {"id": 7, "fast": True}}))
    assert score("tool_arguments", golden, answer) == Scored(0.0, note="`lookup`: to.fast is true, expected nothing")


def test_the_note_names_the_first_wrong_argument() -> None:
    golden = sample(expected("lookup_order", order_id=7), expected("refund", order_id=7), expected("greet"))
    answer = response(ToolCall("lookup_order", {"order_id": 8}), ToolCall("refund", {"order_id": 7}))
    assert score("tool_arguments", golden, answer) == Scored(1 / 2, note="`lookup_order`: order_id is 8, expected 7")
    assert mistakes(golden, response(ToolCall("lookup_order")))[0] == "`lookup_order`: order_id is nothing, expected 7"


def test_a_call_that_is_not_made_has_wrong_arguments() -> None:
    golden = sample(expected("a", "b", id=7))
    assert score("tool_arguments", golden, calls("c")) == Scored(0.0, "`a or b` is not called")


def test_calls_of_one_tool_are_matched_by_their_arguments() -> None:
    golden = sample(expected("lookup"), expected("lookup", id=7), expected("lookup", id=8))
    answer = response(*(ToolCall("lookup", {"id": number}) for number in (8, 9, 7)))
    assert value("tool_arguments", golden, answer) == 1.0
    ordered = sample(expected("lookup", id=7), in_order=True)
    assert value("tool_arguments", ordered, answer) == 1.0


def test_mistakes_are_named() -> None:
    golden = sample(expected("lookup", id=7), expected("refund"), expected("notify"))
    failed = ToolCall("lookup", {"id": 8}, error="no such order")
    answer = response(ModelCall("m"), failed, ToolCall("cancel"), ToolCall("notify"))
    assert mistakes(golden, answer) == [
        "`lookup`: id is 8, expected 7",
        "`refund` is not called",
        "`cancel` is called though it is not expected",
        "`lookup` fails: no such order",
    ]
    assert mistakes(sample(), answer) == ["`lookup` fails: no such order"]
    assert mistakes(golden, Response("a", "b", (Context("text"),))) == []


def test_calls_in_another_order_are_neither_missing_nor_unexpected() -> None:
    assert mistakes(sample(A, B, in_order=True), calls("b", "a")) == ["`a` is called out of order"]


def test_what_a_hostile_record_has_ends_in_a_score() -> None:
    golden = sample(ExpectedCall((), {"id": 7}, tolerance=float("nan")))
    assert value("tool_arguments", golden, calls("a")) == 0.0
    assert value("tool_selection", sample(*[A] * 5_000), calls(*"a" * 200)) <= 1.0


def test_errors_are_the_share_of_calls_that_failed() -> None:
    answer = response(ToolCall("a"), ToolCall("b", error="timeout"), ToolCall("b"), ToolCall("c", error=""))
    assert score("tool_errors", sample(), answer) == Scored(2 / 4, note="`b` fails: timeout")
    assert isinstance(score("tool_errors", sample(), response(ModelCall("m"))), NotApplicable)


def test_samples_without_expected_calls_and_answers_without_steps_have_no_score() -> None:
    without = replace(calls(), contexts=(Context("text"),))
    for name in ("tool_selection", "tool_arguments"):
        assert isinstance(score(name, sample(), calls("a")), NotApplicable)
        assert isinstance(score(name, sample(expected("a", id=7)), without), NotApplicable)
    assert isinstance(score("tool_arguments", sample(A), calls("a")), NotApplicable)
