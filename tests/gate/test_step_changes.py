"""Which turn, hop or tool broke, counted over the answers of two runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, fingerprint
from ragstone.evaluation.step_facts import step_facts
from ragstone.gate.step_changes import MAX_ALERTS, MAX_PROBLEMS, Problem, ProblemKind, step_problems
from ragstone.golden.sample import ConversationTurn, ExpectedCall, Message, Sample, turn_id
from ragstone.system.response import Context, ConversationSoFar, Response, Retrieval, Step, ToolCall
from tests.gate.conftest import build_run, decide

CONVERSATIONS = range(1, 11)
Answer = Callable[[Sample, str], Response]
"""Answers a turn about an order."""


def order(number: int) -> str:
    return f"TF-41{number:02}"


def samples_of(number: int) -> tuple[Sample, ...]:
    """A conversation of three turns: an unclear question, the order's number, and its invoice."""
    questions = ("Where is my order?", f"It is {order(number)}.", "When is its invoice due?")
    name = f"c{number:02}"
    first, second, third = (
        Sample(turn_id(name, turn), question, group=name, turn=ConversationTurn(name, turn, 3))
        for turn, question in enumerate(questions, 1)
    )
    call = ExpectedCall(("lookup_order",), {"order_id": order(number)})
    evidence = (f"Order {order(number)} has a bill.", f"The bill of order {order(number)} is due in May.")
    return (
        dataclasses.replace(first, expects_clarification=True),
        dataclasses.replace(second, tools=(call,)),
        dataclasses.replace(third, reference="In May.", reference_contexts=evidence, hops=(1, 2)),
    )


def turn_of(sample: Sample) -> int:
    return 0 if sample.turn is None else sample.turn.number


def retrieval(text: str, name: str, number: str) -> Retrieval:
    return Retrieval(f"{name} of {number}", (Context(text, f"{name}/1"),))


def lookup(number: str, result: str | None = None, error: str | None = None) -> ToolCall:
    return ToolCall("lookup_order", {"order_id": number}, result or f"{number} is on its way", error)


def good(sample: Sample, number: str) -> Response:
    if turn_of(sample) == 1:
        return Response(sample.id, "Which order do you mean?")
    steps: tuple[Step, ...] = (lookup(number),)
    if turn_of(sample) == 3:
        first, second = sample.reference_contexts
        steps = (retrieval(first, "orders", number), retrieval(second, "bills", number))
    return Response(sample.id, f"About {number}: {sample.reference}", steps=steps)


def run_of(
    answer: Answer, bad: Sequence[str] = (), conversation: Callable[[int], Sequence[Sample]] = samples_of
) -> RunScores:
    """A run of all conversations; `bad` ends the ids of the samples with a score of 0."""
    samples = [(sample, order(number)) for number in CONVERSATIONS for sample in conversation(number)]
    scores = {sample.id: float(not sample.id.endswith(tuple(bad)) if bad else True) for sample, _ in samples}
    run = replace(
        build_run({}),
        metrics={"faithfulness": MetricScores(scores)},
        samples={sample.id: SampleFacts.of(sample) for sample, _ in samples},
    )
    messages: dict[str, list[Message]] = {}
    for sample, number in samples:
        earlier = messages.setdefault(sample.id.rpartition("turn")[0], [])
        response = dataclasses.replace(answer(sample, number), so_far=ConversationSoFar(tuple(earlier)))
        step = step_facts(sample, response)
        assert step is not None
        run.system.steps[sample.id] = step
        run.system.answers[sample.id] = (fingerprint(response.answer),)
        earlier += [Message("user", sample.question), Message("assistant", response.answer)]
    return run


def at(turn: int, change: Answer) -> Answer:
    """The good answers, changed at one turn."""
    return lambda sample, number: change(sample, number) if turn_of(sample) == turn else good(sample, number)


def saying(text: str, *contexts: Context) -> Answer:
    return lambda sample, number: Response(sample.id, text, contexts)


def calling(*make: Callable[[str], ToolCall]) -> Answer:
    """The good answers with other calls at the second turn."""
    return at(
        2, lambda sample, number: dataclasses.replace(good(sample, number), steps=tuple(call(number) for call in make))
    )


def counts(answer: Answer, baseline: Answer | None = good) -> dict[Problem, int]:
    """How many answers have each problem."""
    problems = step_problems(run_of(answer), None if baseline is None else run_of(baseline))
    return {problem: len(samples.present) for problem, samples in problems.items()}


def loses(sample: Sample, number: str) -> Response:
    return dataclasses.replace(good(sample, number), steps=good(sample, number).steps[:1])


def asks_for_the_bill(sample: Sample, number: str) -> Response:
    return dataclasses.replace(
        good(sample, number), answer="It is due in May.", steps=(Retrieval(f"bill of {number}"),)
    )


FORGETS = at(3, saying("I don't know."))
UNTRACED = saying("It is due in May.", Context("The bill is due in May."))
BAD = saying("It is on its way.")
ORDER = "`lookup_order`"
HOPS = [
    Problem(ProblemKind.LOST_HOP, f"hop {hop}", f"the evidence from `{source}`")
    for hop, source in ((1, "orders"), (2, "bills"))
]
FORGOTTEN = Problem(ProblemKind.FORGOTTEN, "turn 3", "the order_id")
TEN = 10


@pytest.mark.parametrize(
    ("answer", "baseline", "expected"),
    [
        pytest.param(good, None, {}, id="good"),
        pytest.param(FORGETS, FORGETS, {}, id="wrong in the baseline too"),
        pytest.param(FORGETS, good, {FORGOTTEN: TEN, HOPS[0]: TEN}, id="forgets"),
        pytest.param(at(3, asks_for_the_bill), good, {HOPS[0]: TEN}, id="reworded, but it asks for the value"),
        pytest.param(at(3, loses), good, {HOPS[1]: TEN}, id="a hop"),
        pytest.param(
            calling(lambda number: lookup("1")),
            good,
            {Problem(ProblemKind.WRONG_ARGUMENT, ORDER, "order_id"): TEN},
            id="a wrong argument",
        ),
        pytest.param(
            calling(lambda number: lookup(number, error="timeout")),
            good,
            {Problem(ProblemKind.TOOL_FAILS, ORDER): TEN},
            id="a tool that fails",
        ),
        pytest.param(
            calling(lookup, lookup),
            good,
            {Problem(ProblemKind.REPEATED, ORDER): TEN, Problem(ProblemKind.UNEXPECTED, ORDER): TEN},
            id="repeated",
        ),
        pytest.param(calling(lookup, lookup), calling(lookup, lookup), {}, id="repeated before too"),
        pytest.param(
            calling(lambda number: lookup(number, "the same")),
            good,
            {Problem(ProblemKind.OTHER_RESULT, ORDER): TEN},
            id="another result",
        ),
        pytest.param(at(1, BAD), good, {Problem(ProblemKind.NO_CLARIFICATION): TEN}, id="does not ask back"),
        pytest.param(
            at(2, saying("Which order do you mean?")),
            good,
            {Problem(ProblemKind.EARLIER_ANSWER): 10, Problem(ProblemKind.NOT_CALLED, ORDER): TEN},
            id="the answer of the turn before",
        ),
        # Contexts without steps say nothing of calls, and of what is carried.
        pytest.param(at(2, UNTRACED), good, {}, id="no trace of calls"),
        pytest.param(at(3, UNTRACED), good, {}, id="no trace of searches"),
        # Without a baseline, the labels show what is wrong.
        pytest.param(
            BAD,
            None,
            {
                Problem(ProblemKind.NO_CLARIFICATION): TEN,
                FORGOTTEN: TEN,
                Problem(ProblemKind.NOT_CALLED, ORDER): TEN,
                Problem(ProblemKind.LOST_HOP, "hop 1", "its evidence"): TEN,
            },
            id="labels alone",
        ),
    ],
)
def test_problems_of_turns_hops_and_tools(
    answer: Answer, baseline: Answer | None, expected: dict[Problem, int]
) -> None:
    assert counts(answer, baseline) == expected


def test_later_turns_are_consequences_of_the_first_that_forgot() -> None:
    def told_first(number: int) -> list[Sample]:
        """A conversation that names the order in its first turn, and needs it in both others."""
        first, _, third = samples_of(number)
        call = ExpectedCall(("lookup_order",), {"order_id": order(number)})
        name = f"c{number:02}"
        second = dataclasses.replace(third, id=turn_id(name, 2), turn=ConversationTurn(name, 2, 3))
        named = dataclasses.replace(first, question=f"Where is {order(number)}?")
        return [named, dataclasses.replace(second, tools=(call,)), dataclasses.replace(third, tools=(call,))]

    def carries(sample: Sample, number: str) -> Response:
        return Response(sample.id, f"It is about {number}.", steps=(lookup(number),))

    def forgets(sample: Sample, number: str) -> Response:
        if turn_of(sample) == 1:
            return carries(sample, number)
        return dataclasses.replace(carries(sample, number), answer="It is due in May.", steps=(lookup("none"),))

    problems = step_problems(run_of(forgets, (), told_first), run_of(carries, (), told_first))
    forgotten = {problem: samples for problem, samples in problems.items() if problem.kind is ProblemKind.FORGOTTEN}
    assert [(problem.place, problem.detail) for problem in forgotten] == [("turn 2", "the order_id")]
    (samples,) = forgotten.values()
    assert (len(samples.present), len(samples.caused)) == (10, 20)


# -- what a report says ------------------------------------------------------------------------------------------------


def findings(answer: Answer, bad: Sequence[str] = (), baseline: Answer | None = good) -> list[tuple[str, str]]:
    """The level of each finding and how it begins, and where to look."""
    rule = {"faithfulness": {"min": 0.5, "max_drop": 0.05}}
    then = None if baseline is None else run_of(baseline)
    found = decide(run_of(answer, bad), then, metrics=rule).of_kind("step_changes")
    return [(finding.level.name, f"{finding.where or ''}|{finding.text}") for finding in found]


FORGOT = "Turn 3 no longer carries the order_id (10 of 10 conversations, such as c01"
NO_HOP = "Hop 1 no longer finds the evidence from `orders` (10 of 10 answers, such as c01"
FIRST = "In 10 of 10 conversations with a worse turn, turn {} is the first."


@pytest.mark.parametrize(
    ("answer", "bad", "expected"),
    [
        pytest.param(FORGETS, ["turn-3"], [("ALERT", f"turn 3|{FORGOT}"), ("NOTE", f"|{NO_HOP}")], id="it explains"),
        pytest.param(FORGETS, ["turn-1"], [("NOTE", f"|{FORGOT}"), ("NOTE", f"|{NO_HOP}")], id="others are worse"),
        pytest.param(good, ["turn-2", "turn-3"], [("ALERT", f"turn 2|{FIRST.format(2)}")], id="a turn without a cause"),
        pytest.param(good, ["turn-1"], [("NOTE", f"|{FIRST.format(1)}")], id="the first turn"),
    ],
)
def test_problems_are_alerts_where_they_explain(
    answer: Answer, bad: list[str], expected: list[tuple[str, str]]
) -> None:
    found = findings(answer, bad)
    begun = [any(text.startswith(start) and level == wanted for level, text in found) for wanted, start in expected]
    assert begun == [True] * len(expected)
    assert [level for level, _ in found].count("ALERT") <= MAX_ALERTS


def test_a_report_names_no_more_problems_than_can_be_read() -> None:
    many = calling(lookup, *(lambda number, place=place: ToolCall(f"tool_{place}") for place in range(40)))
    assert len(findings(many)) == MAX_PROBLEMS


def test_a_run_without_steps_has_no_such_findings() -> None:
    runs = (build_run({"faithfulness": [score] * 20}) for score in (0.0, 1.0))
    assert decide(*runs, metrics={"faithfulness": {"max_drop": 0.05}}).of_kind("step_changes") == ()
