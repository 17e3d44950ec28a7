"""Recall and precision by hop, and repeated retrievals, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.hops import hops_of
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Context, ModelCall, Response, Retrieval, Step, ToolCall

ORDER = "Order 4711 was placed by Ada Brown on 3 May 2024."
ITEM = "Order 4711 contains one Vell kettle in red."
WARRANTY = "The Vell kettle has a warranty of 24 months."
OTHER = "Our offices in Arden are closed on Sundays."
SAMPLE = Sample("a", "How long is the warranty?", reference_contexts=(ORDER, ITEM, WARRANTY), hops=(1, 1, 2))


def response(*steps: Step) -> Response:
    contexts = tuple(context for step in steps if isinstance(step, Retrieval) for context in step.contexts)
    return Response("a", "24 months.", contexts, steps=steps)


def retrieval(query: str, *texts: str) -> Retrieval:
    return Retrieval(query, tuple(Context(text) for text in texts))


def score(name: str, answer: Response, sample: Sample = SAMPLE) -> Score:
    (metric,) = select_metrics([name])
    return metric.score(sample, answer, Judgements())


def value(name: str, answer: Response, sample: Sample = SAMPLE) -> float:
    found = score(name, answer, sample)
    assert isinstance(found, Scored)
    return found.value


# By hand, as trec_eval's set_recall of each hop and set_P of each retrieval:
# hop 1 needs ORDER and ITEM, of which ORDER is found: recall 1/2; hop 2 needs WARRANTY, which is found: recall 1;
# the first retrieval has ORDER and OTHER: precision 1/2; the second has WARRANTY, OTHER, ORDER and another: 2/4.
TWO_HOPS = response(
    ModelCall("m"),
    retrieval("order 4711", ORDER, OTHER),
    retrieval("kettle warranty", WARRANTY, OTHER, ORDER, "Parking is free."),
)


def test_hops_are_averaged() -> None:
    assert value("hop_recall", TWO_HOPS) == (1 / 2 + 1) / 2
    assert value("hop_precision", TWO_HOPS) == (1 / 2 + 2 / 4) / 2


def lost_hop(sample: Sample, answer: Response) -> int | None:
    return next((hop.number for hop in hops_of(sample, answer) if None in hop.ranks), None)


def test_the_note_names_the_first_hop_that_loses_evidence() -> None:
    found = score("hop_recall", TWO_HOPS)
    assert isinstance(found, Scored)
    assert found.note == "hop 1 doesn't find 1 of 2"
    assert lost_hop(SAMPLE, TWO_HOPS) == 1
    assert [hop.ranks for hop in hops_of(SAMPLE, TWO_HOPS)] == [(1, None), (3,)]


@pytest.mark.parametrize(
    "steps",
    [
        (retrieval("warranty", WARRANTY), retrieval("order 4711", ORDER, ITEM)),
        (retrieval("hello"), retrieval("order 4711", ORDER, ITEM), retrieval("warranty", WARRANTY)),
        (retrieval("order 4711 warranty", ORDER, ITEM, WARRANTY),),
        (ToolCall("lookup_order", {"number": 4711}, f"{ORDER} {ITEM}"), retrieval("warranty", WARRANTY)),
    ],
    ids=["in another order", "after a search more", "all at once", "by a tool"],
)
def test_evidence_is_found_by_whichever_step_finds_it(steps: tuple[Step, ...]) -> None:
    assert value("hop_recall", response(*steps)) == 1.0


def test_a_missing_retrieval_finds_nothing() -> None:
    one = response(retrieval("order 4711", ORDER, ITEM))
    assert value("hop_recall", one) == 1 / 2
    assert value("hop_precision", one) == 1.0
    assert lost_hop(SAMPLE, one) == 2
    found = score("hop_recall", one)
    assert isinstance(found, Scored)
    assert found.note == "hop 2 doesn't find 1 of 1: the answer has 1 retrieval"


def test_an_answer_without_any_retrieval_or_context_loses_the_first_hop() -> None:
    for none in (Response("a", "24 months."), response(ModelCall("m"))):
        assert value("hop_recall", none) == value("hop_precision", none) == 0.0
        assert lost_hop(SAMPLE, none) == 1


def test_nothing_is_lost_if_each_hop_finds_its_own_in_pieces() -> None:
    half, other_half = WARRANTY[:25], WARRANTY[25:]
    whole = response(retrieval("order", ORDER, ITEM), retrieval("warranty", half, other_half, half))
    assert lost_hop(SAMPLE, whole) is None
    assert value("hop_recall", whole) == value("hop_precision", whole) == 1.0


def test_evidence_of_hop_0_is_of_no_retrieval_but_counts_for_precision() -> None:
    sample = replace(SAMPLE, hops=(0, 0, 1))
    answer = response(retrieval("warranty", WARRANTY, ITEM))
    assert value("hop_recall", answer, sample) == value("hop_precision", answer, sample) == 1.0


@pytest.mark.parametrize(
    ("sample", "answer"),
    [
        (replace(SAMPLE, hops=()), TWO_HOPS),
        (replace(SAMPLE, hops=(0, 0, 0)), TWO_HOPS),
        (SAMPLE, Response("a", "24 months.", (Context(ORDER),))),
        (SAMPLE, response(Retrieval("order", (Context("", "d1"),)))),
        (replace(SAMPLE, reference_contexts=("…", "…", "…")), TWO_HOPS),
    ],
)
def test_no_hops_or_no_steps_or_no_texts_do_not_apply(sample: Sample, answer: Response) -> None:
    for name in ("hop_recall", "hop_precision"):
        assert isinstance(score(name, answer, sample), NotApplicable)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((retrieval("a kettle", ORDER),), 0.0),
        ((retrieval("a kettle", ORDER), retrieval("the order", ITEM)), 0.0),
        ((retrieval("a kettle", ORDER), retrieval("A  Kettle?", ITEM)), 1 / 2),
        ((retrieval("a kettle", ORDER, ITEM), retrieval("the order", ITEM, ORDER)), 1 / 2),
        ((retrieval("a kettle", ORDER, ITEM), retrieval("the order", ITEM)), 0.0),
        ((retrieval("a kettle"), retrieval("the order")), 0.0),
        ((retrieval("", ORDER), retrieval("", ITEM)), 0.0),
        ((retrieval("a"), retrieval("a"), retrieval("b"), retrieval("a")), 2 / 4),
        ((replace(retrieval("a"), source="docs"), replace(retrieval("a"), source="orders")), 0.0),
        ((Retrieval("a", (Context("", "d1"),)), Retrieval("b", (Context("", "d1"),))), 1 / 2),
    ],
)
def test_a_retrieval_repeats_the_query_or_the_whole_result_of_an_earlier_one(
    steps: tuple[Step, ...], expected: float
) -> None:
    assert value("repeated_retrievals", response(*steps)) == expected


def test_answers_without_retrievals_do_not_repeat_any() -> None:
    assert isinstance(score("repeated_retrievals", response(ModelCall("m"))), NotApplicable)
    assert isinstance(score("repeated_retrievals", Response("a", "b", (Context(ORDER),))), NotApplicable)


@pytest.mark.parametrize(("count", "expected"), [(1, 1.0), (2, 1.0), (3, 0.0)])
def test_steps_have_a_limit(count: int, expected: float) -> None:
    assert value("steps_within@2", response(*[ModelCall("m")] * count)) == expected
    assert isinstance(score("steps_within@2", Response("a", "b")), NotApplicable)
