"""Samples whose right answer asks back: one metric of answers applies, and the others don't."""

from __future__ import annotations

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.registry import DEFAULT, METRICS, find_metric
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.system.response import Response

ASKED_BACK = Sample("a", "Where is it?", reference="Which order do you mean?", expects_clarification=True)
CLARIFICATION = METRICS["clarification"]


@pytest.mark.parametrize(("answer", "expected"), [("Which order do you mean?", 1.0), ("It is on its way.", 0.0)])
def test_an_answer_asks_back_or_not(answer: str, expected: float) -> None:
    score = CLARIFICATION.score(ASKED_BACK, Response("a", answer), Judgements())
    assert isinstance(score, Scored)
    assert score.value == expected


def test_a_sample_that_expects_an_answer_has_no_score() -> None:
    score = CLARIFICATION.score(Sample("a", "Where is it?"), Response("a", "Which order?"), Judgements())
    assert isinstance(score, NotApplicable)


@pytest.mark.parametrize("name", [*DEFAULT, "citation_validity", "answer_stability", "exact_match", "words_within@9"])
def test_other_metrics_of_the_answer_do_not_apply(name: str) -> None:
    metric = find_metric(name)
    assert metric is not None
    assert isinstance(metric.why_not_applicable(ASKED_BACK), NotApplicable)
    assert not metric.needs(ASKED_BACK)


@pytest.mark.parametrize("name", ["steps_within@10", "latency_within@5"])
def test_what_needs_no_answer_still_applies(name: str) -> None:
    assert METRICS[name].why_not_applicable(ASKED_BACK) is None
