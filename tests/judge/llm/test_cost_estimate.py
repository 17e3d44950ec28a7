"""What a judgement is estimated to send and to receive, from the lengths of its texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.golden.sample import GoldenSet, Message, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.cost_estimate import estimate_cost
from ragstone.judge.llm.prices import CostEstimate
from ragstone.judge.protocol import Call
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response

SAMPLE = Sample("q1", "q" * 400, "r" * 400)


class Metric:
    """A metric that needs one judgement."""

    def __init__(self, kind: JudgementKind) -> None:
        self._kind = kind

    def needs(self, _: Sample) -> frozenset[JudgementKind]:
        return frozenset({self._kind})


def estimate(kind: JudgementKind, sample: Sample = SAMPLE, answer: int = 0, contexts: int = 1600) -> CostEstimate:
    settings = JudgeSettings(name="openai:gpt-5.4-mini")
    return estimate_cost(settings, GoldenSet((sample,)), [Metric(kind)], lengths={"q1": (answer, contexts)})


MORE: dict[JudgementKind, tuple[int, int, int, int]] = {
    JudgementKind.STATEMENTS: (100, 100, 0, 0),
    JudgementKind.SUPPORT: (100, 300, 0, 100),
    JudgementKind.CONTEXT_USE: (100, 0, 100, 100),
    JudgementKind.REFERENCE_MATCH: (200, 400, 100, 0),
    JudgementKind.PREVIOUS_MATCH: (200, 500, 0, 0),
    JudgementKind.ENTITIES: (0, 0, 100, 0),
    JudgementKind.PREFERENCE: (200, 400, 0, 400),
    JudgementKind.CONTEXT_RELEVANCE: (100, 0, 0, 125),
}
"""Tokens sent in addition if the question, the answer, the reference or the contexts have 400 characters more.

Support and matches also need the statements of the answer; a preference is asked in both orders.
"""


@pytest.mark.parametrize("kind", MORE)
def test_every_text_that_a_judgement_reads_is_counted(kind: JudgementKind) -> None:
    sent = estimate(kind).input_tokens
    longer = (
        estimate(kind, replace(SAMPLE, question="q" * 800)),
        estimate(kind, answer=400),
        estimate(kind, replace(SAMPLE, reference="r" * 800)),
        estimate(kind, contexts=2000),
    )
    assert tuple(one.input_tokens - sent for one in longer) == MORE[kind]


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        (JudgementKind.STATEMENTS, 133),
        (JudgementKind.SUPPORT, 133 + 180),
        (JudgementKind.REFERENCE_MATCH, 133 + 133 + 184),
        (JudgementKind.CONTEXT_USE, 133 + 100),
        (JudgementKind.PREVIOUS_MATCH, 133 + 133 + 160),
        (JudgementKind.ENTITIES, 50),
        (JudgementKind.CITATIONS, (5 - 1) * 5 * 45),
    ],
)
def test_what_is_written_grows_with_the_texts_that_it_is_about(kind: JudgementKind, received: int) -> None:
    longer = estimate(kind, replace(SAMPLE, reference="r" * 800), answer=400)
    assert longer.output_tokens - estimate(kind).output_tokens == pytest.approx(received, abs=1)


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        (JudgementKind.STATEMENTS, 30),
        (JudgementKind.CONTEXT_USE, 133 + 100 + 60),
        (JudgementKind.REVERSE_QUESTIONS, 90),
        (JudgementKind.ENTITIES, 65),
        (JudgementKind.PREFERENCE, 2 * 15),
        (JudgementKind.CONTEXT_RELEVANCE, 75),
    ],
)
def test_something_is_written_about_any_text(kind: JudgementKind, received: int) -> None:
    assert estimate(kind).output_tokens == received


def test_citations_are_estimated_as_if_each_statement_cited_two_of_five_contexts() -> None:
    assert [estimate(JudgementKind.CITATIONS, answer=length).calls for length in (0, 80, 400)] == [5, 5, 25]
    more = estimate(JudgementKind.CITATIONS, contexts=3600).input_tokens
    assert more - estimate(JudgementKind.CITATIONS).input_tokens == 5 * (2000 * 2 // 5) // 4


GOLDEN = GoldenSet(tuple(Sample(f"q{n}", "When was it opened?", reference="It was opened in 1931.") for n in range(10)))


@pytest.mark.parametrize(
    ("name", "calls", "cheap", "dear"), [("offline", 0, 0.0, 0.0), ("openai:gpt-4o-mini", 60, 0.001, 0.1)]
)
def test_the_estimate_counts_five_calls_a_sample_and_one_for_embeddings(
    name: str, calls: int, cheap: float, dear: float
) -> None:
    once, thrice, twice_thrice = (
        estimate_cost(JudgeSettings(name=name), GOLDEN, select_metrics(), repeats=repeats, answers_per_sample=answers)
        for repeats, answers in ((1, 1), (3, 1), (3, 2))
    )
    assert once.calls == calls
    assert once.usd is not None
    assert cheap <= once.usd <= dear
    assert thrice.usd == pytest.approx(3 * once.usd)
    assert twice_thrice.usd == pytest.approx(6 * once.usd)
    assert estimate_cost(JudgeSettings(name="openai-compatible:llama"), GOLDEN, select_metrics()).usd is None


@pytest.mark.parametrize("name", ["openai:gpt-5.4-mini", "anthropic:claude-sonnet-4-5"])
def test_the_first_call_finds_nothing_in_the_cache(name: str) -> None:
    one, ten = (
        estimate_cost(JudgeSettings(name=name), GoldenSet(GOLDEN.samples[:count]), select_metrics())
        for count in (1, 10)
    )
    assert one.usd is not None
    assert ten.usd is not None
    assert 1.5 * ten.usd < 10 * one.usd
    assert ten.input_tokens == 10 * one.input_tokens


@pytest.mark.parametrize(
    ("lengths", "words"), [(None, "answers as long as the references"), ({}, ""), ({"q1": (4_000, 40_000)}, "")]
)
def test_lengths_that_are_known_replace_what_is_assumed(lengths: dict[str, tuple[int, int]] | None, words: str) -> None:
    settings = JudgeSettings(name="openai:gpt-4o-mini")
    cost = estimate_cost(settings, GOLDEN, select_metrics(), lengths=lengths)
    assumed = estimate_cost(settings, GOLDEN, select_metrics())
    assert cost.assumptions.startswith(words or "no cached judgements")
    assert (cost.input_tokens > assumed.input_tokens) is bool(lengths)


def test_the_estimate_is_close_to_what_such_a_run_does_send(world: Any) -> None:
    sample = GOLDEN.samples[0]
    needs = frozenset().union(*(metric.needs(sample) for metric in select_metrics()))
    response = Response(sample.id, "It was opened in 1931.", tuple(Context("c" * 800) for _ in range(5)))
    world.run(collect_judgements(world.judge(), sample, response, needs, Call(sample.id)))
    sent = sum(len(str(seen.body["messages"])) // 4 for seen in world.fake.chats)
    cost = estimate_cost(JudgeSettings(name="openai:gpt-4o-mini"), GoldenSet((sample,)), select_metrics())
    assert 0.7 * cost.input_tokens < sent < 1.3 * cost.input_tokens


TURNS = (Message("user", "q" * 200), Message("assistant", "a" * 200))


@pytest.mark.parametrize(
    ("kind", "changes", "calls"),
    [
        (JudgementKind.CONTEXT_USE, {}, 1),
        (JudgementKind.CONTEXT_USE, {"history": TURNS}, 2),  # the question is written out
        (JudgementKind.REFERENCE_MATCH, {}, 2),
        (JudgementKind.REFERENCE_MATCH, {"other_references": ("r",) * 5}, 4),  # of at most three references
        (JudgementKind.REFERENCE_MATCH, {"reference": None}, 1),
        (JudgementKind.ANSWER_SIMILARITY, {}, 1),
        (JudgementKind.ANSWER_SIMILARITY, {"reference": None}, 0),
        (JudgementKind.CUSTOM, {}, 0),
    ],
)
def test_calls_are_those_that_a_judgement_of_the_sample_takes(
    kind: JudgementKind, changes: dict[str, Any], calls: int
) -> None:
    assert estimate(kind, replace(SAMPLE, **changes)).calls == calls


def test_without_a_metric_a_conversation_is_not_read() -> None:
    golden = GoldenSet((replace(SAMPLE, history=TURNS),))
    assert estimate_cost(JudgeSettings(name="openai:gpt-5.4-mini"), golden, []).calls == 0


def test_what_is_not_known_is_assumed_to_be_of_usual_length() -> None:
    """An answer as long as the reference, else 400 characters; contexts as the sample's, else 5 of 800."""

    def sent(kind: JudgementKind, **changes: Any) -> int:
        golden = GoldenSet((replace(SAMPLE, **changes),))
        return estimate_cost(JudgeSettings(name="openai:gpt-5.4-mini"), golden, [Metric(kind)]).input_tokens

    assert sent(JudgementKind.STATEMENTS) == sent(JudgementKind.STATEMENTS, reference=None)
    assert sent(JudgementKind.STATEMENTS, reference="r" * 800) == sent(JudgementKind.STATEMENTS) + 100
    known = sent(JudgementKind.CONTEXT_RELEVANCE, reference_contexts=("c" * 4_000,))
    assert known == sent(JudgementKind.CONTEXT_RELEVANCE)
    assert sent(JudgementKind.CONTEXT_RELEVANCE, reference_contexts=("c" * 400,)) < known


def test_costs_add_up_and_an_unknown_one_stays_unknown() -> None:
    one, other = CostEstimate(1, 2, 3, 0.5), CostEstimate(1, 2, 3, 0.25, "nothing in the cache")
    assert one.plus(other) == CostEstimate(2, 4, 6, 0.75, "nothing in the cache")
    assert other.plus(one).assumptions == "nothing in the cache"
    unknown = CostEstimate(1, 2, 3, None)
    assert one.plus(unknown).usd is unknown.plus(one).usd is None


@pytest.mark.parametrize(("length", "calls"), [(1, 2), (640, 2), (641, 2), (1400, 4)])
def test_support_of_many_statements_takes_several_calls(length: int, calls: int) -> None:
    assert estimate(JudgementKind.SUPPORT, answer=length).calls == calls


def test_a_sentence_names_the_least_sum_that_is_shown() -> None:
    assert CostEstimate(0, 0, 0, 0.0).sentence() == "no paid judge call"
    assert CostEstimate(1, 9, 9, 0.001).sentence() == "at most 1 judge call, about $0.01"
    assert CostEstimate(2, 9, 9, None).sentence() == "at most 2 judge calls, price unknown"
