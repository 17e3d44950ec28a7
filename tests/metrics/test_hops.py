"""Recall and precision by hop, and repeated retrievals, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.metrics.hops import hops_of
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.system.response import Context, ModelCall, Response, Retrieval, Step, ToolCall
from tests.metrics.judged import outcome, score

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


# By hand, as trec_eval's set_recall of each hop and set_P of each retrieval:
# hop 1 needs ORDER and ITEM, of which ORDER is found: recall 1/2; hop 2 needs WARRANTY, which is found: recall 1;
# the first retrieval has ORDER and OTHER: precision 1/2; the second has WARRANTY, OTHER, ORDER and another: 2/4.
TWO_HOPS = response(
    ModelCall("m"),
    retrieval("order 4711", ORDER, OTHER),
    retrieval("kettle warranty", WARRANTY, OTHER, ORDER, "Parking is free."),
)
ORDER_FOUND = retrieval("order 4711", ORDER, ITEM)
PIECES = (retrieval("order", ORDER, ITEM), retrieval("warranty", WARRANTY[:25], WARRANTY[25:], WARRANTY[:25]))
BY_TOOL = ToolCall("lookup_order", {"number": 4711}, f"{ORDER} {ITEM}")


@pytest.mark.parametrize(
    ("answer", "recall", "precision", "note"),
    [
        (TWO_HOPS, (1 / 2 + 1) / 2, (1 / 2 + 2 / 4) / 2, "hop 1 lacks 1 of 2 reference contexts"),
        (response(retrieval("warranty", WARRANTY), ORDER_FOUND), 1.0, 1.0, None),
        (response(retrieval("hello"), ORDER_FOUND, retrieval("warranty", WARRANTY)), 1.0, 2 / 3, None),
        (response(retrieval("order 4711 warranty", ORDER, ITEM, WARRANTY)), 1.0, 1.0, None),
        (response(BY_TOOL, retrieval("warranty", WARRANTY)), 1.0, 1.0, None),
        (response(ToolCall("lookup_order"), ORDER_FOUND, retrieval("warranty", WARRANTY)), 1.0, 1.0, None),
        (response(*PIECES), 1.0, 1.0, None),
        (response(ORDER_FOUND), 1 / 2, 1.0, "hop 2 lacks 1 of 1 reference context: the answer has 1 retrieval"),
        (response(ORDER_FOUND, retrieval("x", OTHER)), 1 / 2, 1 / 2, "hop 2 lacks 1 of 1 reference context"),
        (
            response(ModelCall("m")),
            0.0,
            0.0,
            "hop 1 lacks 2 of 2 reference contexts: the answer has 0 retrievals",
        ),
    ],
    ids=[
        *("two hops", "in another order", "after a search more", "all at once", "by a tool"),
        *("beside a tool without a result", "in pieces", "a retrieval is missing", "the second finds nothing"),
        "no retrieval",
    ],
)
def test_evidence_is_found_by_whichever_step_finds_it(
    answer: Response, recall: float, precision: float, note: str | None
) -> None:
    assert score("hop_recall", SAMPLE, answer) == Scored(recall, note)
    found = score("hop_precision", SAMPLE, answer)
    assert isinstance(found, Scored)
    assert found.value == pytest.approx(precision)
    assert found.note == note


def test_evidence_of_hop_0_is_of_no_retrieval_but_counts_for_precision() -> None:
    sample, answer = replace(SAMPLE, hops=(0, 0, 1)), response(retrieval("warranty", WARRANTY, ITEM))
    assert [score(name, sample, answer) for name in ("hop_recall", "hop_precision")] == [Scored(1.0)] * 2
    assert [hop.ranks for hop in hops_of(SAMPLE, TWO_HOPS)] == [(1, 0), (3,)]


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
        assert isinstance(score(name, sample, answer), NotApplicable)


@pytest.mark.parametrize("answer", [response(ModelCall("m")), Response("a", "b", (Context(ORDER),))])
def test_an_answer_without_retrievals_repeats_none(answer: Response) -> None:
    assert isinstance(score("repeated_retrievals", SAMPLE, answer), NotApplicable)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((retrieval("a kettle", ORDER), retrieval("the order", ITEM)), 0.0),
        ((retrieval("a kettle", ORDER), retrieval("A  Kettle?", ITEM)), 1 / 2),
        ((retrieval("a kettle", ORDER, ITEM), retrieval("the order", ITEM, ORDER)), 1 / 2),
        ((retrieval("a kettle", ORDER, ITEM), retrieval("the order", ITEM)), 0.0),
        ((retrieval("", ORDER), retrieval("", ITEM)), 0.0),
        ((retrieval("a"), retrieval("a"), retrieval("b"), retrieval("a")), 2 / 4),
        ((replace(retrieval("a"), source="docs"), replace(retrieval("a"), source="orders")), 0.0),
        ((Retrieval("a", (Context("", "d1"),)), Retrieval("b", (Context("", "d1"),))), 1 / 2),
    ],
)
def test_a_retrieval_repeats_the_query_or_the_whole_result_of_an_earlier_one(
    steps: tuple[Step, ...], expected: float
) -> None:
    assert outcome(score("repeated_retrievals", SAMPLE, response(*steps))) == expected
