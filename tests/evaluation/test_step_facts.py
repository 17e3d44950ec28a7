"""Facts of an answer's steps: what it found, called and took over from earlier turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.step_facts import MAX_KEYS, MAX_STEPS, MAX_VALUES, StepFacts, step_facts, value_key, values_of
from ragstone.golden.sample import ConversationTurn, ExpectedCall, Message, Sample
from ragstone.metrics.tool_calls import MistakeKind, ToolMistake
from ragstone.system.response import Context, ConversationSoFar, Response, Retrieval, ToolCall

EVIDENCE = "Invoice INV-7001 is over 80 euros and is due on 3 March."
TURN = Sample(
    "c/turn-2",
    "When is that due?",
    "On 3 March, by invoice INV-7001 of order TF-4101.",
    reference_contexts=(EVIDENCE,),
    hops=(2,),
    turn=ConversationTurn("c", 2, 2),
)
HISTORY = (Message("user", "Where is my order TF-4101?"), Message("assistant", "It left with parcel PK-77123."))


def facts_of(sample: Sample, response: Response) -> StepFacts:
    facts = step_facts(sample, replace(response, so_far=ConversationSoFar(HISTORY)))
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Where is TF-4101?", {"TF-4101"}),
        ("Call 12345 or 1234 in 2026, or 30 days later.", {"12345"}),
        ("A1b, but neither A1 nor well-known.", {"A1b"}),
        (f"{'a' * 59}1 {'b' * 60}1", {f"{'a' * 59}1"}),
        ("My name is Ada Lind.", {"Ada Lind"}),
        ("Write to ada3@example.org.", {"ada3@example.org"}),
        ("", set()),
    ],
)
def test_values_are_ids_long_numbers_and_names(text: str, values: set[str]) -> None:
    assert values_of(text) == values


def test_many_values_are_cut_and_a_hostile_text_takes_no_time() -> None:
    assert len(values_of(" ".join(f"id-{number}x" for number in range(5_000)))) == 100
    assert values_of("a-" * 1_000_000) == frozenset()
    assert values_of("1" * 1_000_000) == frozenset()


@pytest.mark.parametrize(
    ("labels", "steps", "has_facts"),
    [
        ({}, (), False),
        ({}, (Retrieval("x"),), True),
        ({"hops": (1,), "reference_contexts": (EVIDENCE,)}, (), True),
        ({"tools": (ExpectedCall(("find",)),)}, (), True),
        ({"expects_clarification": True}, (), True),
        ({"turn": ConversationTurn("c", 1, 2)}, (), True),
    ],
)
def test_a_sample_without_turns_steps_and_labels_of_them_has_no_facts(
    labels: dict[str, Any], steps: tuple[Retrieval, ...], has_facts: bool
) -> None:
    response = Response("s", "There.", (Context("There."),), steps=steps)
    assert (step_facts(Sample("s", "Where?", **labels), response) is not None) is has_facts


def test_a_turn_carries_what_its_answer_queries_and_arguments_have() -> None:
    carries = value_key("TF-4101")
    assert carries not in facts_of(TURN, Response("c", "On 3 March.")).value_keys
    assert carries in facts_of(TURN, Response("c", "For TF-4101: on 3 March.")).value_keys
    by_query = facts_of(TURN, Response("c", "On 3 March.", steps=(Retrieval("invoice of TF-4101"),)))
    assert carries in by_query.value_keys
    by_argument = facts_of(TURN, Response("c", "On 3 March.", steps=(ToolCall("find", {"order_id": "TF-4101"}),)))
    assert carries in by_argument.value_keys
    assert by_argument.argument_names == (("TF-0", "order_id"),)


def test_what_the_question_says_is_not_needed_from_before() -> None:
    asked = replace(TURN, question="When is TF-4101 due?", reference="TF-4101 is due on 3 March.")
    assert facts_of(asked, Response("c", "On 3 March.")).needed_values == frozenset()


def test_labels_need_what_the_user_gave_before_and_a_value_is_still_there_if_its_number_is() -> None:
    facts = facts_of(replace(TURN, reference="With parcel PK-77123 of TF-4101."), Response("c", "On 3 March."))
    assert facts.needed_values == {"TF-4101"}
    facts = facts_of(TURN, Response("c", "For order 4101 of Ada Lind."))
    assert {value_key("TF-4101"), value_key("tf4101"), value_key("Ada Lind")} <= facts.value_keys
    assert value_key("TF-4102") not in facts.value_keys


def test_evidence_counts_as_found_whichever_retrieval_finds_it_with_the_source_it_is_from() -> None:
    named = Retrieval("invoice", (Context(EVIDENCE),), "invoices")
    (hop,) = facts_of(TURN, Response("c", "On 3 March.", steps=(Retrieval("x"), Retrieval("y"), named))).hops
    assert (hop.hop, hop.is_found, hop.source) == (2, True, "invoices")
    by_id = Retrieval("invoice", (Context("Another one."), Context(EVIDENCE, "bills/INV-7001")))
    (hop,) = facts_of(TURN, Response("c", "On 3 March.", steps=(by_id,))).hops
    assert (hop.is_found, hop.source) == (True, "bills")
    (hop,) = facts_of(TURN, Response("c", "On 3 March.", steps=(Retrieval("x", (Context("Another one."),)),))).hops
    assert (hop.is_found, hop.source) == (False, "")
    assert facts_of(TURN, Response("c", "On 3 March.", (Context("Without steps."),))).hops == ()


def test_mistakes_are_those_of_the_labels() -> None:
    sample = replace(TURN, tools=(ExpectedCall(("lookup", "find"), {"order": {"id": "TF-4101"}}),))
    wrong = facts_of(sample, Response("c", "x", steps=(ToolCall("find", {"order": {"id": "4101"}}, error="none"),)))
    assert wrong.expected_tools == {"lookup or find"}
    assert wrong.mistakes == {
        ToolMistake(MistakeKind.WRONG_ARGUMENT, "find", "order"),
        ToolMistake(MistakeKind.ERROR, "find"),
    }
    missing = facts_of(sample, Response("c", "x"))
    assert missing.mistakes == {ToolMistake(MistakeKind.NOT_CALLED, "lookup or find")}


def test_the_facts_of_an_answer_are_bounded() -> None:
    many = {f"argument_{number}": f"TF-{number}" for number in range(1_000)}
    steps = tuple(ToolCall(f"find_{at}", {**many, "order_id": f"TX-{at}"}, error="x") for at in range(1_000))
    sample = replace(TURN, tools=(ExpectedCall(("lookup",), {}),))
    facts = facts_of(sample, Response("c", "On 3 March.", steps=steps))
    assert facts.step_count == 1_000
    assert len(facts.calls) == len(facts.mistakes) == MAX_STEPS
    assert len(facts.argument_names) == MAX_VALUES
    assert len(facts.value_keys) <= MAX_KEYS


def test_the_first_values_of_many_are_the_same_in_each_process_and_a_repeated_one_counts_once() -> None:
    queries = [" ".join(f"TF-{10_000 + 30 * at + number}" for number in range(30)) for at in range(50)]
    steps = tuple(Retrieval(query) for query in (queries[0], *queries))
    facts = facts_of(TURN, Response("c", "", steps=steps))
    assert facts.value_keys == {str(10_000 + number) for number in range(MAX_KEYS)}
    calls = tuple(ToolCall("find", {f"id_{number % 2}": f"TF-{number}"}) for number in range(1_000, 1_100))
    expected = ExpectedCall(("find",), {"parcel_id": "TF-7000"})
    facts = facts_of(replace(TURN, tools=(expected,)), Response("c", "", steps=calls))
    assert facts.argument_names == (("TF-0", "id_0"), ("TF-0", "id_1"), ("TF-0", "parcel_id"))


@pytest.mark.parametrize(("answer", "asks_back"), [("Which order do you mean?", True), ("It is on its way.", False)])
def test_asking_back_is_known_where_it_is_expected(answer: str, asks_back: bool) -> None:
    assert facts_of(replace(TURN, expects_clarification=True), Response("c", answer)).asks_back is asks_back
    assert facts_of(TURN, Response("c", answer)).asks_back is None
