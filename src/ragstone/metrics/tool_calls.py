"""Tool calls: does the system call the tools that it should, with the right arguments,
and do the calls succeed?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ragstone.formatting import clipped
from ragstone.golden.expected_calls import MAX_CALLS
from ragstone.golden.sample import ExpectedCall, Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response, Retrieval, ToolCall

_MAX_SHOWN_CHARACTERS = 60
"""Longer values and errors are cut in a message."""

_MISSING = object()
"""Stands for the value of an argument that is missing on one of the two sides."""


class MistakeKind(StrEnum):
    """What is wrong with the calls of an answer."""

    NOT_CALLED = "not_called"
    OUT_OF_ORDER = "out_of_order"
    WRONG_ARGUMENT = "wrong_argument"
    UNEXPECTED = "unexpected"
    ERROR = "error"


_SENTENCES: Mapping[MistakeKind, str] = {
    MistakeKind.NOT_CALLED: "`{tool}` is not called",
    MistakeKind.OUT_OF_ORDER: "`{tool}` is called out of order",
    MistakeKind.WRONG_ARGUMENT: "`{tool}`: {argument} is {actual}, expected {expected}",
    MistakeKind.UNEXPECTED: "`{tool}` is called, but no such call is expected",
    MistakeKind.ERROR: "`{tool}` fails: {actual}",
}


class ToolMistake(Struct, frozen=True):
    """One mistake in the tool calls of an answer. Its text is a sentence for a
    report."""

    kind: MistakeKind
    tool: str
    """The name of the tool; all names that would do (``a or b``) if none of them is
    called."""
    argument: str = ""
    """The path to a wrong argument: ``address.city``, ``items[0]``."""
    expected: str = ""
    """The value that a wrong argument should have, as JSON; ``no such argument`` if it
    should not be passed."""
    actual: str = ""
    """The value that a wrong argument has, as JSON, or ``missing``; the message of an
    error."""

    def __str__(self) -> str:
        return _SENTENCES[self.kind].format(**asdict(self))


def tool_mistakes(sample: Sample, response: Response) -> tuple[ToolMistake, ...]:
    """The mistakes in the tool calls of an answer: those of expected calls in their
    order, then unexpected calls, then errors.

    Empty if the steps of the answer were not recorded. Where the sample names no
    `tools`, no call is unexpected, so that only errors are mistakes.
    """
    if response.lacks_steps:
        return ()
    calls = calls_of(sample, response)
    pairs = match_calls(sample, calls)
    unexpected: list[ToolCall] = []
    if sample.tools:
        matched = set(pairs.values())
        unexpected = [call for index, call in enumerate(calls) if index not in matched]
    mistakes: list[ToolMistake] = []
    for number, expected in enumerate(sample.tools):
        if number in pairs:
            mistakes += wrong_arguments(expected, calls[pairs[number]])
            continue
        # A call of the right tool that is left over was made at the wrong place.
        misplaced = next(
            (call for call in unexpected if call.name in expected.names), None
        )
        if misplaced is None:
            mistakes.append(_not_called(expected))
        else:
            unexpected.remove(misplaced)
            mistakes.append(ToolMistake(MistakeKind.OUT_OF_ORDER, misplaced.name))
    mistakes += [ToolMistake(MistakeKind.UNEXPECTED, call.name) for call in unexpected]
    return (*mistakes, *_errors(calls))


def _not_called(expected: ExpectedCall) -> ToolMistake:
    return ToolMistake(MistakeKind.NOT_CALLED, " or ".join(expected.names))


def _errors(calls: Sequence[ToolCall]) -> list[ToolMistake]:
    return [
        ToolMistake(
            MistakeKind.ERROR,
            call.name,
            actual=clipped(call.error, _MAX_SHOWN_CHARACTERS),
        )
        for call in calls
        if call.error is not None
    ]


def _note(mistakes: Sequence[ToolMistake]) -> str | None:
    """The note of a score: the first mistake; None if there is none."""
    if not mistakes:
        return None
    return str(mistakes[0])


def calls_of(sample: Sample, response: Response) -> list[ToolCall]:
    """The tool calls of an answer, in order. A retrieval counts as a call of its source
    if `sample` expects such a call."""
    expected_names: set[str] = set()
    for expected in sample.tools:
        expected_names.update(expected.names)
    calls = []
    for step in response.steps:
        match step:
            case ToolCall():
                calls.append(step)
            case Retrieval(source=str(source)) if source in expected_names:
                calls.append(ToolCall(source, {"query": step.query}))
    return calls


def match_calls(sample: Sample, calls: Sequence[ToolCall]) -> dict[int, int]:
    """Match expected calls with `calls` of the same name, by their indices: as many as
    possible, and of these matchings the one with the fewest wrong arguments.

    No call is matched twice. With `tools_in_order`, matched calls are in the order of
    the expected ones.
    """
    costs: list[Mapping[int, int]] = []
    for expected in sample.tools[:MAX_CALLS]:
        wrong_by_index: dict[int, int] = {}
        for index, call in enumerate(calls):
            if call.name in expected.names:
                wrong_by_index[index] = len(wrong_arguments(expected, call))
        costs.append(wrong_by_index)
    if sample.tools_in_order:
        return _cheapest_subsequence(costs, len(calls))
    return _cheapest_matching(costs, len(calls))


def _cheapest_matching(
    costs: Sequence[Mapping[int, int]], call_count: int
) -> dict[int, int]:
    """The largest matching of expected calls, whose `costs` with each call that can be
    theirs are given by its index; of several, that with the lowest total cost."""
    nearest = {
        number: min(cost_by_index, key=cost_by_index.__getitem__)
        for number, cost_by_index in enumerate(costs)
        if cost_by_index
    }
    if len(set(nearest.values())) == len(nearest):
        # No two expected calls compete for a call. Spares the imports of numpy and
        # scipy.optimize, which take longer than a small run.
        return nearest
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    # One pair more is worth any number of wrong arguments.
    no_match = 1 + sum(sum(cost_by_index.values()) for cost_by_index in costs)
    matrix = np.full((len(costs), call_count), no_match)
    for number, cost_by_index in enumerate(costs):
        for index, cost in cost_by_index.items():
            matrix[number, index] = cost
    numbers, indices = linear_sum_assignment(matrix)
    pairs = zip(numbers.tolist(), indices.tolist(), strict=True)
    return {number: index for number, index in pairs if index in costs[number]}


class _Subsequence(Struct, frozen=True):
    """A common subsequence of expected calls and calls."""

    pairs: tuple[tuple[int, int], ...] = ()
    """The indices of an expected call and of its call."""
    cost: int = 0
    """The number of wrong arguments."""

    @property
    def preference(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """Larger for a longer subsequence, then for a lower cost; the pairs only make
        the choice the same every time."""
        return len(self.pairs), -self.cost, self.pairs


def _cheapest_subsequence(
    costs: Sequence[Mapping[int, int]], call_count: int
) -> dict[int, int]:
    """The longest common subsequence of expected calls and calls; of several, that with
    the lowest cost. `costs` are as in `_cheapest_matching`."""
    # best[count] is the best one of the expected calls so far and the first `count`
    # calls.
    best = [_Subsequence()] * (call_count + 1)
    for number, cost_by_index in enumerate(costs):
        row = [best[0]]
        for index in range(call_count):
            candidates = [best[index + 1], row[index]]
            if index in cost_by_index:
                shorter = best[index]
                longer = _Subsequence(
                    (*shorter.pairs, (number, index)),
                    shorter.cost + cost_by_index[index],
                )
                candidates.append(longer)
            row.append(max(candidates, key=lambda candidate: candidate.preference))
        best = row
    return dict(best[-1].pairs)


def wrong_arguments(expected: ExpectedCall, call: ToolCall) -> list[ToolMistake]:
    """The arguments of `call` that are not as expected; empty if `expected` names no
    arguments."""
    if expected.arguments is None:
        return []
    differences = _differences(expected.arguments, call.arguments, expected, path="")
    return [
        ToolMistake(
            MistakeKind.WRONG_ARGUMENT,
            call.name,
            argument=difference.path.removeprefix("."),
            expected=_json(difference.expected, "no such argument"),
            actual=_json(difference.actual, "missing"),
        )
        for difference in differences
    ]


class _Difference(Struct, frozen=True):
    """A place at which the arguments of a call differ from the expected ones."""

    path: str
    """The way to it, with a dot before each name: ``.address.city``."""
    expected: Any
    actual: Any


def _differences(
    expected: Any, actual: Any, call: ExpectedCall, *, path: str
) -> Iterator[_Difference]:
    """The places at which two JSON values differ, by the match and the tolerance of
    `call`."""
    match expected, actual:
        case Mapping(), Mapping():
            names = [*expected, *actual] if call.match == "exact" else expected
            for name in dict.fromkeys(names):
                yield from _differences(
                    expected.get(name, _MISSING),
                    actual.get(name, _MISSING),
                    call,
                    path=f"{path}.{name}",
                )
        case list(), list() if len(expected) == len(actual):
            for index, pair in enumerate(zip(expected, actual, strict=True)):
                yield from _differences(*pair, call, path=f"{path}[{index}]")
        case _ if not _is_equal(expected, actual, call.tolerance):
            yield _Difference(path, expected, actual)


def _is_equal(expected: object, actual: object, tolerance: float) -> bool:
    match expected, actual:
        case (bool(), _) | (_, bool()):
            # Not as numbers: True would equal 1.
            return expected is actual
        case str(), str():
            return expected.strip() == actual.strip()
        case ((int() | float()), str()):
            return _is_equal(expected, _parse_number(actual), tolerance)
        case ((int() | float()), (int() | float())):
            # An integer can be too large to be compared as a float.
            with suppress(OverflowError):
                return abs(actual - expected) <= tolerance * abs(expected)
    return expected == actual


def _parse_number(text: str) -> float | None:
    """The number that `text` writes; None if it writes none."""
    for parse in (int, float):
        with suppress(ValueError):
            return parse(text)
    return None


def _json(value: object, missing: str) -> str:
    """`value` as JSON, clipped; `missing` in place of `_MISSING`."""
    if value is _MISSING:
        return missing
    return clipped(json.dumps(value, ensure_ascii=False), _MAX_SHOWN_CHARACTERS)


class _ToolMetric(BaseMetric):
    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"tools"})

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if sample.tools:
            return None
        return NotApplicable("the sample expects no tool call")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.lacks_steps:
            return NotApplicable(NO_STEPS)
        calls = calls_of(sample, response)
        return self._score_calls(sample, calls, match_calls(sample, calls))

    def _score_calls(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        """The score of `calls`, where `pairs` are those that `match_calls` matched."""
        raise NotImplementedError


class ToolSelection(_ToolMetric):
    """F1 of the calls that are made and those that are expected, by the names of the
    tools.

    With `tools_in_order`, only calls in the expected order count: those of the longest
    common subsequence.
    """

    info = MetricInfo(
        name="tool_selection",
        version="1",
        blames="both",
        source="RAGAS documentation, tool call F1, by names; the note is DeepEval's tool correctness",
    )

    def _score_calls(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        matched_count = len(pairs)
        expected_count = len(sample.tools)
        unexpected_count = len(calls) - matched_count
        note = f"{matched_count} of {expected_count} expected calls made, {unexpected_count} unexpected"
        f1 = 2 * matched_count / (expected_count + len(calls))
        return Scored(f1, note=note)


class ToolArguments(_ToolMetric):
    """Expected calls that are made with the right arguments ÷ all expected calls that
    name arguments. The note is the first mistake."""

    info = MetricInfo(
        name="tool_arguments",
        version="2",
        blames="both",
        source="Berkeley Function Calling Leaderboard, AST evaluation: a call counts if all its arguments are right",
    )

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if any(expected.arguments is not None for expected in sample.tools):
            return None
        return NotApplicable("the sample expects no arguments")

    def _score_calls(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        total = 0
        first_mistakes: list[ToolMistake] = []
        for number, expected in enumerate(sample.tools):
            if expected.arguments is None:
                continue
            total += 1
            mistakes = [_not_called(expected)]
            if number in pairs:
                mistakes = wrong_arguments(expected, calls[pairs[number]])
            first_mistakes += mistakes[:1]
        wrong_share = len(first_mistakes) / total
        return Scored(1.0 - wrong_share, note=_note(first_mistakes))


class ToolErrors(BaseMetric):
    """Tool calls that failed ÷ all tool calls of an answer. Not applicable to an answer
    without tool calls."""

    info = MetricInfo(
        name="tool_errors",
        version="1",
        blames="both",
        source="Ragstone: share of an answer's tool calls that failed",
        lower_is_better=True,
        needs_no_answer=True,
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.lacks_steps:
            return NotApplicable(NO_STEPS)
        calls = calls_of(sample, response)
        if not calls:
            return NotApplicable("the answer has no tool call")
        errors = _errors(calls)
        return Scored(len(errors) / len(calls), note=_note(errors))
