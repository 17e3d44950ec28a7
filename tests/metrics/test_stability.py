"""Answer stability: several answers to one question, compared with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    StatementList,
    Support,
    Verdict,
)
from ragstone.judge.protocol import Call
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.metrics.stability import AnswerStability, SelfConsistency, TokenStability
from ragstone.system.response import Response
from tests.metrics.judged import matched, score, statements

SAMPLE = Sample("q", "When was it opened?")


def responses(*answers: str) -> list[Response]:
    return [Response("q", answer) for answer in answers]


def judged(supported: int, *, of: int = 2, abstains: bool = False) -> Judgements:
    """`supported` of two statements are in the previous answer, and as many of its statements are in this one."""
    is_supported = [rank < supported for rank in range(of)]
    match = matched(is_supported, is_supported).reference_match
    return Judgements(StatementList(statements("s", of), abstains), previous_match=match)


@pytest.mark.parametrize(
    ("answers", "judgements", "value"),
    [
        (["In 1931.", "In 1930.", "Yes."], [judged(0), judged(1), judged(0)], 0.25),
        (["In 1931.", "in 1931"], [Judgements(), Judgements()], 1.0),  # equal texts take no judge
        (["", "Unknown."], [judged(0, abstains=True)] * 2, 1.0),
        (["In 1931.", "Unknown."], [judged(0), judged(2, abstains=True)], 0.0),
    ],
)
def test_each_answer_is_compared_with_the_one_before_it(
    answers: Sequence[str], judgements: Sequence[Judgements], value: float
) -> None:
    found = AnswerStability().compare(SAMPLE, responses(*answers), judgements)
    assert isinstance(found, Scored)
    assert found.value == pytest.approx(value)


def test_token_overlap_compares_all_pairs() -> None:
    found = TokenStability().compare(SAMPLE, responses("blue house", "blue house", "red house"), [Judgements()] * 3)
    assert isinstance(found, Scored)
    assert found.value == pytest.approx((1.0 + 0.5 + 0.5) / 3)
    assert "3 pairs" in (found.note or "")


def test_self_consistency_takes_probabilities_and_shares_where_a_judge_has_them() -> None:
    match = judged(2).previous_match
    assert isinstance(match, ReferenceMatch)
    likely = replace(
        match, answer_supports=tuple(Support(f"s{i}", Verdict.SUPPORTED, probability=0.75) for i in (1, 2))
    )
    for one, value in ((likely, 0.875), (replace(match, answer_share=0.25, reference_share=0.5), 0.375)):
        rounds = [judged(0), Judgements(statements=judged(0).statements, previous_match=one)]
        found = SelfConsistency().compare(SAMPLE, responses("a", "b"), rounds)
        assert isinstance(found, Scored)
        assert found.value == value


def judged_each_way(later: int, earlier: int) -> Judgements:
    """The previous answer supports `later` of the two statements, and this one `earlier` of the previous one's two."""
    match, other = judged(later).previous_match, judged(earlier).previous_match
    assert isinstance(match, ReferenceMatch)
    assert isinstance(other, ReferenceMatch)
    match = replace(match, reference_supports=other.reference_supports)
    return Judgements(statements=judged(0).statements, previous_match=match)


@pytest.mark.parametrize(
    ("answers", "judgements", "expected"),
    [
        (["a", "b", "c"], [judged(0), judged_each_way(2, 1), judged_each_way(0, 0)], 0.375),
        (["In 1931.", "in 1931"], [judged(0), judged(0)], 1.0),  # equal texts take no judge
        (["a", "Unknown.", "c"], [judged(2), judged(0, abstains=True), judged(2)], 0.0),  # of those that say something
        (["a", "a", "Unknown."], [judged(2), judged(2), judged(0, abstains=True)], 2 / 3),
        (["Unknown.", "Unknown."], [judged(0, abstains=True)] * 2, "every answer abstains"),
        (["a", "b"], [judged(0, of=0), judged(0, of=0)], "no statements were found"),
        (["a"], [judged(2)], "asked once"),
    ],
)
def test_self_consistency_is_the_share_of_statements_that_other_answers_support(
    answers: Sequence[str], judgements: Sequence[Judgements], expected: float | str
) -> None:
    found = SelfConsistency().compare(SAMPLE, responses(*answers), judgements)
    if isinstance(expected, str):
        assert not isinstance(found, Scored)
        assert expected in found.reason
    else:
        assert isinstance(found, Scored)
        assert found.value == pytest.approx(expected)


FAILED = Judgements(statements=judged(1).statements, previous_match=JudgementFailure("refused"))


@pytest.mark.parametrize("metric", [AnswerStability(), SelfConsistency()])
@pytest.mark.parametrize(
    ("last", "expected"),
    [(FAILED, Failed("judge", "refused")), (Judgements(), Failed("judge", "the judge returned no statements"))],
)
def test_a_comparison_that_failed_is_not_left_out(
    metric: AnswerStability | SelfConsistency, last: Judgements, expected: Score
) -> None:
    assert metric.compare(SAMPLE, responses("a", "b", "c"), [judged(2), judged(2), last]) == expected


@pytest.mark.parametrize("name", ["answer_stability", "answer_stability_tokens", "self_consistency"])
def test_a_system_that_is_asked_once_has_no_stability(name: str) -> None:
    assert isinstance(score(name, SAMPLE, responses("a")[0], judged(2)), NotApplicable)


@pytest.mark.parametrize(
    ("before", "answer", "abstains", "is_compared"),
    [
        ("In 1931.", "In 1930.", False, True),
        ("In 1931.", "In 1930.", True, False),
        ("In 1931.", "In 1931.", False, False),
        (" ", "In 1930.", False, False),
        (None, "In 1930.", False, False),
    ],
    ids=["another answer", "it abstains", "the same again", "an empty one before it", "the first"],
)
def test_an_answer_is_compared_with_another_one_before_it(
    before: str | None, answer: str, abstains: bool, is_compared: bool
) -> None:
    match = judged(1).previous_match
    judge = ScriptedJudge({"q": Judgements(judged(1, abstains=abstains).statements, reference_match=match)})
    previous = None if before is None else Response("q", before)
    needs = frozenset({JudgementKind.STATEMENTS, JudgementKind.PREVIOUS_MATCH})
    work = collect_judgements(judge, SAMPLE, Response("q", answer), needs, Call("q"), previous=previous)
    assert asyncio.run(work).previous_match == (match if is_compared else None)
