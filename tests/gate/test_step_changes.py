"""Which turn, hop or tool broke, counted over the answers of two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ragstone.evaluation.scores import RunScores, SampleFacts, fingerprint
from ragstone.evaluation.step_facts import step_facts
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import Level
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.step_changes import MAX_ALERTS, MAX_SENTENCES, Problem, ProblemKind, step_problems
from ragstone.golden.sample import ConversationTurn, ExpectedCall, Message, Sample, turn_id
from ragstone.system.response import Context, ConversationSoFar, Response, Retrieval, Step, ToolCall

from .conftest import build_run

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
        replace(first, expects_clarification=True),
        replace(second, tools=(call,)),
        replace(third, reference="In May.", reference_contexts=evidence, hops=(1, 2)),
    )


def retrieval(text: str, name: str, number: str) -> Retrieval:
    return Retrieval(f"{name} of {number}", (Context(text, f"{name}/1"),))


def good(sample: Sample, number: str) -> Response:
    assert sample.turn is not None
    if sample.turn.number == 1:
        return Response(sample.id, "Which order do you mean?")
    call = ToolCall("lookup_order", {"order_id": number}, f"{number} is on its way")
    steps: tuple[Step, ...] = (call,)
    if sample.turn.number == 3:
        first, second = sample.reference_contexts
        steps = (retrieval(first, "orders", number), retrieval(second, "bills", number))
    return Response(sample.id, f"About {number}: {sample.reference}", steps=steps)


def run_of(answer: Answer, bad: Sequence[str] = ()) -> RunScores:
    """A run of all conversations; `bad` ends the ids of the samples with a score of 0."""
    samples = [(sample, order(number)) for number in CONVERSATIONS for sample in samples_of(number)]
    scores = [0.0 if sample.id.endswith(tuple(bad)) and bad else 1.0 for sample, _ in samples]
    run = build_run({"faithfulness": scores})
    names = {f"s{place}": sample.id for place, (sample, _) in enumerate(samples)}
    metric = run.metrics["faithfulness"]
    metrics = {"faithfulness": replace(metric, values={names[key]: value for key, value in metric.values.items()})}
    facts = {sample.id: SampleFacts.of(sample) for sample, _ in samples}
    run = replace(run, metrics=metrics, samples=facts)
    messages: dict[str, list[Message]] = {}
    for sample, number in samples:
        assert sample.turn is not None
        earlier = messages.setdefault(sample.turn.id, [])
        response = replace(answer(sample, number), so_far=ConversationSoFar(tuple(earlier)))
        step = step_facts(sample, response)
        assert step is not None
        run.system.steps[sample.id] = step
        run.system.answers[sample.id] = (fingerprint(response.answer),)
        earlier += [Message("user", sample.question), Message("assistant", response.answer)]
    return run


def at(turn: int, change: Answer) -> Answer:
    """The good answers, changed at one turn."""

    def answer(sample: Sample, number: str) -> Response:
        is_changed = sample.turn is not None and sample.turn.number == turn
        return change(sample, number) if is_changed else good(sample, number)

    return answer


def counts(answer: Answer, baseline: Answer | None = good) -> dict[Problem, tuple[int, int]]:
    """How many have each problem, of how many that could."""
    problems = step_problems(run_of(answer), None if baseline is None else run_of(baseline))
    return {problem: (len(counted.present), len(counted.possible)) for problem, counted in problems.items()}


def without_steps(sample: Sample, number: str) -> Response:
    return Response(sample.id, "I don't know.")


def test_unchanged_answers_have_no_problem() -> None:
    assert counts(good) == {}
    assert counts(good, None) == {}


def test_the_turn_that_no_longer_carries_a_value_is_named_by_the_tools_argument() -> None:
    problems = counts(at(3, without_steps))
    assert problems[Problem(ProblemKind.FORGOTTEN, "3", "order_id")] == (10, 10)
    assert problems[Problem(ProblemKind.LOST_HOP, "1", "orders")] == (10, 10)
    assert Problem(ProblemKind.LOST_HOP, "2", "bills") not in problems


def test_a_reworded_answer_that_still_asks_for_the_value_has_not_forgotten_it() -> None:
    def reworded(sample: Sample, number: str) -> Response:
        return replace(good(sample, number), answer="It is due in May.", steps=(Retrieval(f"bill of {number}"),))

    assert not any(problem.kind is ProblemKind.FORGOTTEN for problem in counts(at(3, reworded)))


def test_later_turns_are_consequences_of_the_first_that_forgot() -> None:
    def carries(sample: Sample, number: str) -> Response:
        return replace(good(sample, number), answer=f"Which order? {number} has the parcel PK-55512.")

    def forgets(sample: Sample, number: str) -> Response:
        is_first = sample.turn is not None and sample.turn.number == 1
        return carries(sample, number) if is_first else replace(good(sample, number), answer="It is due in May.")

    problems = step_problems(run_of(forgets), run_of(carries))
    assert [(problem.kind, problem.place) for problem in problems] == [(ProblemKind.FORGOTTEN, "2")]
    (forgotten,) = problems.values()
    assert (len(forgotten.present), len(forgotten.possible), len(forgotten.caused)) == (10, 10, 20)


def test_what_a_hop_lost_is_named_by_its_source_or_else_not() -> None:
    def loses(sample: Sample, number: str) -> Response:
        response = good(sample, number)
        return replace(response, steps=response.steps[:1])

    assert counts(at(3, loses)) == {Problem(ProblemKind.LOST_HOP, "2", "bills"): (10, 10)}

    def other_source(sample: Sample, number: str) -> Response:
        response = good(sample, number)
        if number > order(5) and sample.turn and sample.turn.number == 3:
            return replace(
                response, steps=(response.steps[0], retrieval(sample.reference_contexts[1], "archive", number))
            )
        return response

    assert counts(at(3, loses), other_source) == {Problem(ProblemKind.LOST_HOP, "2"): (10, 10)}


def test_wrong_arguments_errors_missing_repeated_and_other_calls_are_told_apart() -> None:
    def calls(*steps: ToolCall) -> Answer:
        return at(2, lambda sample, number: replace(good(sample, number), steps=steps))

    def right(number: str, result: str | None = None, error: str | None = None) -> ToolCall:
        return ToolCall("lookup_order", {"order_id": number}, result or f"{number} is on its way", error)

    def each(*make: Callable[[str], ToolCall]) -> Answer:
        return at(2, lambda sample, number: replace(good(sample, number), steps=tuple(call(number) for call in make)))

    wrong = counts(calls(ToolCall("lookup_order", {"order_id": "1"})))
    assert wrong == {Problem(ProblemKind.WRONG_ARGUMENT, "lookup_order", "order_id"): (10, 10)}
    failing = counts(each(lambda number: right(number, error="timeout")))
    assert failing == {Problem(ProblemKind.TOOL_FAILS, "lookup_order"): (10, 10)}
    repeated = counts(each(right, right))
    assert repeated[Problem(ProblemKind.REPEATED, "lookup_order")] == (10, 10)
    stale = counts(each(lambda number: right(number, "the same")))
    assert stale == {Problem(ProblemKind.OTHER_RESULT, "lookup_order"): (10, 10)}
    other = counts(calls(ToolCall("find_invoice", {})))
    assert other[Problem(ProblemKind.NOT_CALLED, "lookup_order")] == (10, 10)
    assert other[Problem(ProblemKind.UNEXPECTED, "find_invoice")] == (10, 10)


def test_an_answer_in_place_of_a_question_and_the_answer_of_the_turn_before_are_problems() -> None:
    answers = counts(at(1, lambda sample, number: Response(sample.id, "It is on its way.")))
    assert answers[Problem(ProblemKind.NO_CLARIFICATION)] == (10, 10)
    late = counts(at(2, lambda sample, number: Response(sample.id, "Which order do you mean?")))
    assert late[Problem(ProblemKind.EARLIER_ANSWER)] == (10, 20)


def test_what_was_wrong_in_the_baseline_is_no_news() -> None:
    broken = at(3, without_steps)
    assert counts(broken, broken) == {}


def test_contexts_without_steps_say_nothing_of_calls_and_of_what_is_carried() -> None:
    def untraced(sample: Sample, number: str) -> Response:
        return Response(sample.id, "It is due in May.", (Context("The bill is due in May."),))

    assert counts(at(2, untraced)) == {}
    assert counts(at(3, untraced)) == {}


def test_a_report_names_no_more_problems_than_can_be_read() -> None:
    def calls_many(sample: Sample, number: str) -> Response:
        response = good(sample, number)
        return replace(response, steps=(*response.steps, *(ToolCall(f"tool_{place}") for place in range(40))))

    assert len(levels(run_of(at(2, calls_many)), run_of(good))) == MAX_SENTENCES + 1  # and how many steps there are


def test_without_a_baseline_the_labels_show_what_is_wrong() -> None:
    def bad(sample: Sample, number: str) -> Response:
        return Response(sample.id, "It is on its way.")

    assert counts(bad, None) == {
        Problem(ProblemKind.NO_CLARIFICATION): (10, 10),
        Problem(ProblemKind.FORGOTTEN, "3", "order_id"): (10, 10),
        Problem(ProblemKind.NOT_CALLED, "lookup_order"): (10, 10),
        Problem(ProblemKind.LOST_HOP, "1"): (10, 10),
    }


POLICY = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5, "max_drop": 0.05}}})


def levels(run: RunScores, baseline: RunScores | None) -> list[Level]:
    verdict = decide_gate(run, baseline, POLICY)
    return [finding.level for finding in verdict.of_kind("step_changes")]


def test_problems_are_alerts_only_where_they_explain_what_fails() -> None:
    forgetting = at(3, without_steps)
    failing = levels(run_of(forgetting, bad=["turn-3"]), run_of(good))
    assert 1 <= failing.count(Level.ALERT) <= MAX_ALERTS
    assert levels(run_of(forgetting), run_of(good)) == [Level.NOTE, Level.NOTE]
    unrelated = levels(run_of(forgetting, bad=["turn-1"]), run_of(good))
    assert Level.ALERT not in unrelated


def test_a_run_without_steps_and_turns_has_no_such_findings() -> None:
    run = build_run({"faithfulness": [0.0] * 20})
    assert levels(run, build_run({"faithfulness": [1.0] * 20})) == []
