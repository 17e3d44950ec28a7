"""Tool selection, arguments and errors, with the worked examples of peers."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.golden.expected_calls import MAX_CALLS
from ragstone.golden.sample import ExpectedCall, Sample
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.metrics.tool_calls import tool_mistakes
from ragstone.system.response import NO_STEPS, Context, ModelCall, Response, Retrieval, Step, ToolCall
from tests.metrics.judged import outcome, score


def sample(*tools: ExpectedCall, in_order: bool = False) -> Sample:
    return Sample("a", "Where is my order?", tools=tools, tools_in_order=in_order)


def expected(*names: str, **arguments: Any) -> ExpectedCall:
    return ExpectedCall(names, arguments or None)


def response(*steps: Step) -> Response:
    return Response("a", "It is on its way.", steps=steps)


def calls(*names: str) -> Response:
    return response(*map(ToolCall, names))


def lookup(**arguments: Any) -> ToolCall:
    return ToolCall("lookup", arguments)


A, B, C = expected("a"), expected("b"), expected("c")
SEARCH = Retrieval("kettle", source="search")
FAILED = ToolCall("lookup", {"id": 8}, error="no such order")
FAILURE = "`lookup` fails: no such order"
WRONG_ID = "`lookup`: id is 8, expected 7"
NO_ID = "`lookup`: id is missing, expected 7"
ID_9 = "`lookup`: id is 9, expected 8"
TWO_LOOKUPS = response(lookup(id=7), lookup(id=9))
THREE_LOOKUPS = response(*(lookup(id=number) for number in (8, 9, 7)))


@pytest.mark.parametrize(
    ("golden", "answer", "f1"),
    [
        # RAGAS, tool call F1 = 2TP / (2TP + FP + FN): an extra call gives 1 TP, 1 FP, 0 FN.
        (sample(expected("get_weather")), calls("get_weather", "get_calendar"), 2 / 3),
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
        (sample(A, B, C, in_order=True), calls("b", "c", "a"), 4 / 6),
        (sample(A, B, in_order=True), calls("b", "a"), 2 / 4),
        (sample(A, B, in_order=True), calls("a", "x", "b"), 4 / 5),
        (sample(A, expected("b", "c"), in_order=True), calls("c", "a", "c"), 4 / 5),
        # A retrieval is a call of its source where that is expected.
        (sample(expected("search", query="kettle")), response(SEARCH), 1.0),
        (sample(A), response(SEARCH, ToolCall("a")), 1.0),
    ],
)
def test_selection_is_the_f1_of_the_names(golden: Sample, answer: Response, f1: float) -> None:
    assert outcome(score("tool_selection", golden, answer)) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("wanted", "actual", "right"),
    [
        ({"id": 7}, {"id": 7}, True),
        ({"id": 7}, {}, False),
        ({"id": 7}, {"id": 7, "note": "x"}, True),  # a subset
        ({"id": 7}, {"id": "7"}, True),  # text that is a number, where a number is expected
        ({"id": 7}, {"id": " 7.0 "}, True),
        ({"id": "7"}, {"id": 7}, False),
        ({"id": 7}, {"id": True}, False),
        ({"id": True}, {"id": 1}, False),
        ({"id": True}, {"id": True}, True),
        ({"id": None}, {"id": None}, True),
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
    assert outcome(score("tool_arguments", golden, response(ToolCall("lookup", actual)))) == float(right)


@pytest.mark.parametrize(
    ("tolerance", "actual", "right"),
    [(0.0, 101, False), (0.01, 101, True), (0.01, "101", True), (0.01, 101.1, False), (float("nan"), 101, False)],
)
def test_numbers_may_differ_by_a_tolerance(tolerance: float, actual: object, right: bool) -> None:
    golden = sample(ExpectedCall(("pay",), {"amount": 100}, tolerance=tolerance))
    answer = response(ToolCall("pay", {"amount": actual}))
    assert outcome(score("tool_arguments", golden, answer)) == float(right)


TO_7 = sample(ExpectedCall(("lookup",), {"to": {"id": 7}}, match="exact"))
TWO_IDS = sample(expected("lookup", id=7), expected("refund", id=7), expected("greet"))


@pytest.mark.parametrize(
    ("golden", "answer", "arguments"),
    [
        (TO_7, response(lookup(to={"id": 7})), Scored(1.0)),
        (
            TO_7,
            response(lookup(to={"id": 7, "fast": True})),
            Scored(0.0, "`lookup`: to.fast is true, expected no such argument"),
        ),
        (TWO_IDS, response(lookup(id=8), ToolCall("refund", {"id": 7})), Scored(1 / 2, WRONG_ID)),
        (sample(expected("lookup", id=7)), calls("lookup"), Scored(0.0, "`lookup`: id is missing, expected 7")),
        (sample(expected("a", "b", id=7)), calls("c"), Scored(0.0, "`a or b` is not called")),
        (sample(expected("lookup"), expected("lookup", id=7), expected("lookup", id=8)), THREE_LOOKUPS, Scored(1.0)),
        # 9 is wrong for either of them: it must not take the place of the right call.
        (sample(expected("lookup", id=7), expected("lookup", id=8)), TWO_LOOKUPS, Scored(1 / 2, ID_9)),
        (sample(expected("lookup", id=8), expected("lookup", id=7)), TWO_LOOKUPS, Scored(1 / 2, ID_9)),
        (sample(expected("lookup", id=7), expected("refund")), calls("lookup", "refund"), Scored(0.0, NO_ID)),
        (sample(expected("lookup", id=7), in_order=True), THREE_LOOKUPS, Scored(1.0)),
    ],
)
def test_the_note_is_the_first_wrong_argument_of_the_best_match(
    golden: Sample, answer: Response, arguments: Score
) -> None:
    assert score("tool_arguments", golden, answer) == arguments


@pytest.mark.parametrize(
    ("golden", "answer", "mistakes"),
    [
        (
            sample(expected("lookup", id=7), expected("refund"), expected("notify")),
            response(ModelCall("m"), FAILED, ToolCall("cancel"), ToolCall("notify")),
            [WRONG_ID, "`refund` is not called", "`cancel` is called, but no such call is expected", FAILURE],
        ),
        (sample(), response(FAILED), [FAILURE]),
        (sample(A, B, in_order=True), calls("b", "a"), ["`a` is called out of order"]),
        (sample(A), Response("a", "b", (Context("text"),)), []),
    ],
)
def test_mistakes_are_named(golden: Sample, answer: Response, mistakes: list[str]) -> None:
    assert list(map(str, tool_mistakes(golden, answer))) == mistakes


WITHOUT_STEPS = Response("a", "b", (Context("text"),))


@pytest.mark.parametrize(
    ("name", "golden", "answer", "expected"),
    [
        # DeepEval's example: two tools are called where one is expected, tool correctness 1 of 1.
        ("tool_selection", sample(A), calls("a", "b"), Scored(2 / 3, "1 of 1 expected calls made, 1 unexpected")),
        ("tool_selection", sample(), calls("a"), NotApplicable("the sample expects no tool call")),
        ("tool_selection", sample(A), WITHOUT_STEPS, NotApplicable(NO_STEPS)),
        ("tool_arguments", sample(A), calls("a"), NotApplicable("the sample expects no arguments")),
        ("tool_arguments", sample(expected("a", id=7)), WITHOUT_STEPS, NotApplicable(NO_STEPS)),
        ("tool_errors", sample(), response(ToolCall("a"), FAILED), Scored(1 / 2, FAILURE)),
        ("tool_errors", sample(), response(ToolCall("a", error="")), Scored(1.0, "`a` fails: ")),
        ("tool_errors", sample(), response(ModelCall("m")), NotApplicable("the answer has no tool call")),
        ("tool_errors", sample(), WITHOUT_STEPS, NotApplicable(NO_STEPS)),
    ],
)
def test_what_is_said_of_calls_and_of_none(name: str, golden: Sample, answer: Response, expected: Score) -> None:
    assert score(name, golden, answer) == expected


def test_thousands_of_expected_calls_end_in_a_score() -> None:
    assert outcome(score("tool_selection", sample(*[A] * 5_000), calls(*"a" * 200))) == pytest.approx(
        2 * MAX_CALLS / 5_200
    )
