"""How much of the reference an answer says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, Judgements, ReferenceMatch, StatementList
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response
from tests.metrics.judged import matched
from tests.metrics.test_reference_metrics import SAMPLE

(METRIC,) = select_metrics(["completeness"])


def score(judgements: Judgements, sample: Sample = SAMPLE, answer: str = "Ada Brown.") -> Score:
    return METRIC.score(sample, Response("a", answer), judgements)


def test_it_is_the_share_of_the_references_statements_that_the_answer_gives() -> None:
    assert score(matched([True], [True, True, False, False])) == Scored(0.5)
    (correctness,) = select_metrics(["answer_correctness"])
    padded = matched([True, False, False, False], [True])
    assert score(padded) == Scored(1.0), "what the answer says besides does not lower it"
    assert correctness.score(SAMPLE, Response("a", "Ada Brown."), padded) == Scored(0.4)
    fine = replace(match([True], [True, False]), reference_share=0.7)
    found = score(replace(matched([True], [True, False]), reference_match=fine))
    assert isinstance(found, Scored)
    assert found.value == 0.7, "a finer share of the judge"
    assert METRIC.needs(SAMPLE) == correctness.needs(SAMPLE) != frozenset()


def match(answer: list[bool], reference: list[bool]) -> ReferenceMatch:
    found = matched(answer, reference).reference_match
    assert isinstance(found, ReferenceMatch)
    return found


def test_abstaining_from_an_answerable_question_says_nothing_of_it() -> None:
    silent = Judgements(statements=StatementList((), abstains=True))
    assert score(silent) == Scored(0.0, "abstains on a question that can be answered")
    assert score(Judgements(), answer="  ") == Scored(0.0, "the answer is empty")


@pytest.mark.parametrize("sample", [Sample("a", "Who?"), replace(SAMPLE, answerable=False)])
def test_it_does_not_apply_without_a_reference_or_when_unanswerable(sample: Sample) -> None:
    assert isinstance(score(Judgements(), sample), NotApplicable)
    assert METRIC.needs(sample) == frozenset()


def test_what_the_judge_did_not_give_is_no_score() -> None:
    whole = matched([True], [True, True])
    assert score(replace(whole, reference_match=JudgementFailure("cut off"))) == Failed("judge", "cut off")
    short = replace(match([True], [True, True]), reference_supports=match([True], [True]).reference_supports)
    assert isinstance(score(replace(whole, reference_match=short)), Failed)
