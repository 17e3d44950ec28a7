"""Tool calls: does an answer call the tools that it should, with the right arguments,
and do they succeed?"""

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

_SHOWN = 60
NOTHING = "nothing"
_ABSENT = object()
"""The value of an argument that is not there."""


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
    MistakeKind.UNEXPECTED: "`{tool}` is called though it is not expected",
    MistakeKind.ERROR: "`{tool}` fails: {actual}",
}


class ToolMistake(Struct, frozen=True):
    """One mistake in the calls of a tool; `tool` has all names of an expected call that
    is missing: ``a or b``.

    A wrong argument has the path to it (``address.city``, ``items[0]``), and both
    values as JSON: `NOTHING` for one that is not there, or should not be. An error has
    its text as `actual`.
    """

    kind: MistakeKind
    tool: str
    argument: str = ""
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        return _SENTENCES[self.kind].format(**asdict(self))


def tool_mistakes(sample: Sample, response: Response) -> tuple[ToolMistake, ...]:
    """What is wrong with the calls of an answer: first by expected call, then
    unexpected calls, then errors.

    Empty if the answer came without steps. A sample without `tools` expects nothing: of
    it, only errors are mistakes.
    """
    if response.without_steps:
        return ()
    calls = calls_of(sample, response)
    pairs = match_calls(sample, calls)
    extra: list[ToolCall] = []
    if sample.tools:
        matched = set(pairs.values())
        extra = [call for place, call in enumerate(calls) if place not in matched]
    mistakes: list[ToolMistake] = []
    for number, expected in enumerate(sample.tools):
        if number in pairs:
            mistakes += wrong_arguments(expected, calls[pairs[number]])
            continue
        misplaced = next((call for call in extra if call.name in expected.names), None)
        if misplaced is None:
            mistakes.append(_not_called(expected))
        else:
            extra.remove(misplaced)
            mistakes.append(ToolMistake(MistakeKind.OUT_OF_ORDER, misplaced.name))
    mistakes += [ToolMistake(MistakeKind.UNEXPECTED, call.name) for call in extra]
    return (*mistakes, *_errors(calls))


def _not_called(expected: ExpectedCall) -> ToolMistake:
    return ToolMistake(MistakeKind.NOT_CALLED, " or ".join(expected.names))


def _first_of(mistakes: Sequence[ToolMistake]) -> str | None:
    if not mistakes:
        return None
    return str(mistakes[0])


def _errors(calls: Sequence[ToolCall]) -> list[ToolMistake]:
    return [
        ToolMistake(MistakeKind.ERROR, call.name, actual=clipped(call.error, _SHOWN))
        for call in calls
        if call.error is not None
    ]


def calls_of(sample: Sample, response: Response) -> list[ToolCall]:
    """The tool calls of an answer, in their order; a retrieval is one if `sample`
    expects a call of its source."""
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
    """The call, by its place in `calls`, that each expected call is answered by: as
    many as can be.

    Each call answers one, by its name; where there is a choice, with the fewest wrong
    arguments.
    """
    costs: list[dict[int, int]] = []
    for expected in sample.tools[:MAX_CALLS]:
        cost_by_place: dict[int, int] = {}
        for place, call in enumerate(calls):
            if call.name in expected.names:
                cost_by_place[place] = len(wrong_arguments(expected, call))
        costs.append(cost_by_place)
    if sample.tools_in_order:
        return _longest_subsequence(costs, len(calls))
    pairs: dict[int, int] = {}
    for number in range(len(costs)):
        _augment(number, costs, pairs, set())
    return pairs


def _augment(
    number: int,
    costs: Sequence[Mapping[int, int]],
    pairs: dict[int, int],
    visited: set[int],
) -> bool:
    """Find a call for the expected call `number`, moving others to other calls if need
    be (Kuhn's algorithm)."""
    for place in sorted(costs[number], key=costs[number].__getitem__):
        if place in visited:
            continue
        visited.add(place)
        holder = next(
            (matched for matched, call in pairs.items() if call == place), None
        )
        if holder is None or _augment(holder, costs, pairs, visited):
            pairs[number] = place
            return True
    return False


def _longest_subsequence(
    costs: Sequence[Mapping[int, int]], calls: int
) -> dict[int, int]:
    """The longest common subsequence of expected calls and calls; of several, that with
    the lowest cost."""
    best: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, 0, ())] * (
        calls + 1
    )
    for number, places in enumerate(costs):
        row = [best[0]]  # by the number of first calls: length, cost below 0, pairs
        for place in range(calls):
            candidates = [best[place + 1], row[place]]
            if place in places:
                length, gain, pairs = best[place]
                candidates.append(
                    (length + 1, gain - places[place], (*pairs, (number, place)))
                )
            row.append(max(candidates))
        best = row
    return dict(best[-1][2])


def wrong_arguments(expected: ExpectedCall, call: ToolCall) -> list[ToolMistake]:
    """The arguments of `call` that are not as expected, each by the path to it."""
    if expected.arguments is None:
        return []
    return [
        ToolMistake(
            MistakeKind.WRONG_ARGUMENT,
            call.name,
            path.removeprefix("."),
            _json(wanted),
            _json(actual),
        )
        for path, wanted, actual in _differences(
            expected.arguments, call.arguments, expected, ""
        )
    ]


def _differences(
    wanted: Any, actual: Any, expected: ExpectedCall, path: str
) -> Iterator[tuple[str, Any, Any]]:
    """The paths, each name with a dot before it, at which two JSON values differ, with
    both values there."""
    match wanted, actual:
        case Mapping(), Mapping():
            names = [*wanted, *actual] if expected.match == "exact" else wanted
            for name in dict.fromkeys(names):
                yield from _differences(
                    wanted.get(name, _ABSENT),
                    actual.get(name, _ABSENT),
                    expected,
                    f"{path}.{name}",
                )
        case list(), list() if len(wanted) == len(actual):
            for place, pair in enumerate(zip(wanted, actual, strict=True)):
                yield from _differences(*pair, expected, f"{path}[{place}]")
        case _ if not _is_equal(wanted, actual, expected.tolerance):
            yield path, wanted, actual


def _is_equal(wanted: object, actual: object, tolerance: float) -> bool:
    match wanted, actual:
        case (bool(), _) | (_, bool()):
            return wanted is actual
        case str(), str():
            return wanted.strip() == actual.strip()
        case ((int() | float()), str()):
            return _is_equal(wanted, _number(actual), tolerance)
        case ((int() | float()), (int() | float())):
            with suppress(OverflowError):
                return abs(actual - wanted) <= tolerance * abs(wanted)
    return wanted == actual


def _number(text: str) -> float | None:
    """The number that `text` is; None if it is none."""
    for parse in (int, float):
        with suppress(ValueError):
            return parse(text)
    return None


def _json(value: object) -> str:
    if value is _ABSENT:
        return NOTHING
    return clipped(json.dumps(value, ensure_ascii=False), _SHOWN)


class _ToolMetric(BaseMetric):
    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"tools"})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if sample.tools:
            return None
        return NotApplicable("the sample expects no tool call")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.without_steps:
            return NotApplicable(NO_STEPS)
        calls = calls_of(sample, response)
        return self._rate(sample, calls, match_calls(sample, calls))

    def _rate(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        raise NotImplementedError


class ToolSelection(_ToolMetric):
    """F1 of the calls that are made and those that are expected, by the names of the
    tools.

    With `tools_in_order`, those count that are in the longest common subsequence.
    """

    info = MetricInfo(
        name="tool_selection",
        version="1",
        blames="both",
        source="RAGAS documentation, tool call F1, by names; the note is DeepEval's tool correctness",
    )

    def _rate(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        matched = len(pairs)
        expected = len(sample.tools)
        unexpected = len(calls) - matched
        note = f"{matched} of {expected} expected called, {unexpected} unexpected"
        return Scored(2 * matched / (expected + len(calls)), note=note)


class ToolArguments(_ToolMetric):
    """Expected calls that are made with the arguments they name ÷ all that name some;
    the note is the first mistake."""

    info = MetricInfo(
        name="tool_arguments",
        version="1",
        blames="both",
        source="Berkeley Function Calling Leaderboard, AST evaluation: a call counts if all its arguments are right",
    )

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if any(expected.arguments is not None for expected in sample.tools):
            return None
        return NotApplicable("the sample expects no arguments")

    def _rate(
        self, sample: Sample, calls: Sequence[ToolCall], pairs: Mapping[int, int]
    ) -> Scored:
        total = 0
        wrong: list[ToolMistake] = []
        for number, expected in enumerate(sample.tools):
            if expected.arguments is None:
                continue
            total += 1
            mistakes = [_not_called(expected)]
            if number in pairs:
                mistakes = wrong_arguments(expected, calls[pairs[number]])
            wrong += mistakes[:1]
        return Scored(1.0 - len(wrong) / total, note=_first_of(wrong))


class ToolErrors(BaseMetric):
    """Tool calls that failed ÷ all tool calls of an answer. Not applicable without
    any."""

    info = MetricInfo(
        name="tool_errors",
        version="1",
        blames="both",
        source="Ragstone: share of an answer's tool calls that failed",
        lower_is_better=True,
        answerless=True,
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.without_steps:
            return NotApplicable(NO_STEPS)
        calls = calls_of(sample, response)
        if not calls:
            return NotApplicable("the answer has no tool call")
        errors = _errors(calls)
        return Scored(len(errors) / len(calls), note=_first_of(errors))
