"""Questions that broke or were mended, and what chance explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from ragstone.stats.flips import GAP, Flips, flips_of, least_broken
from ragstone.stats.losses import Change

NAN = math.nan


def flips(changes: Sequence[Change], questions: int, has_one_answer: bool = False) -> Flips:
    return flips_of(changes, np.full(questions, has_one_answer))


def change(after: Any, before: Any, units: list[int] | None = None) -> Change:
    """The change of questions with these scores, one row each."""
    scores_after, scores_before = (np.array(scores, dtype=np.float64) for scores in (after, before))
    indices = np.arange(len(scores_after)) if units is None else np.array(units)
    return Change(indices, after=scores_after, before=scores_before)


@pytest.mark.parametrize(
    ("before", "after", "broken", "mended"),
    [
        pytest.param([1.0], [0.0], True, False, id="lost"),
        pytest.param([0.0], [1.0], False, True, id="won"),
        pytest.param([1.0], [1.0 - GAP], True, False, id="half of it"),
        pytest.param([1.0 - GAP], [1.0], False, True, id="half of it won"),
        pytest.param([1.0], [1.0 - GAP + 0.01], False, False, id="less than half"),
        pytest.param([1.0, 1.0], [0.0, 0.2], True, False, id="each time"),
        pytest.param([1.0, 1.0], [0.0, 1.0], False, False, id="right once more"),
        pytest.param([1.0, 0.0], [0.0, 0.0], False, False, id="wrong before too"),
        pytest.param([1.0, NAN], [0.0, NAN], True, False, id="scores that are missing"),
        pytest.param([1.0, 0.0], [NAN, NAN], False, False, id="no score after"),
        pytest.param([NAN, NAN], [1.0, 0.0], False, False, id="no score before"),
    ],
)
def test_a_question_broke_if_its_scores_before_and_now_are_far_apart(
    before: list[float], after: list[float], broken: bool, mended: bool
) -> None:
    found = flips([change([after], [before])], 1)
    assert (found.broken.tolist(), found.mended.tolist()) == ([broken], [mended])


def test_of_several_metrics_one_that_broke_is_enough_unless_another_was_mended() -> None:
    first = change([[0.0], [0.0], [1.0]], [[1.0], [1.0], [1.0]])
    second = change([[1.0], [1.0]], [[0.0], [1.0]], units=[0, 2])
    found = flips([first, second], 3)
    assert (found.broken.tolist(), found.mended.tolist()) == ([False, True, False], [False] * 3)
    # What is worse in one metric and better in another says nothing of the others.
    found = flips([change([[0.0]] * 8, [[1.0]] * 8), change([[1.0]], [[0.0]])], 8)
    assert found.broken.tolist() == [False] + [True] * 7
    assert found.chance.tolist() == [0.0] + [0.5] * 7
    assert found.p_value == pytest.approx(0.5**7)


def test_the_chance_of_a_question_is_the_share_of_the_orders_of_its_scores_that_look_broken() -> None:
    scores = [1.0, 0.9, 0.1, 0.0, 0.2]
    found = flips([change([scores[2:]], [scores[:2]])], 1)
    looks_broken = [min(before) - max(set(scores) - set(before)) >= GAP for before in combinations(scores, 2)]
    assert found.chance.tolist() == pytest.approx([sum(looks_broken) / len(looks_broken)])


@pytest.mark.parametrize(
    ("before", "after", "has_one_answer", "chance"),
    [
        ([1.0, 1.0, 1.0], [0.0], False, 0.5),  # an answer that stays the same over several runs is drawn once
        ([1.0, 0.9, 1.0], [0.0], False, 0.25),
        ([1.0], [0.0, 0.0, 0.0], True, 0.5),
        ([1.0], [0.0, 0.0, 0.0], False, 0.25),
    ],
)
def test_an_answer_that_is_repeated_is_drawn_once(
    before: list[float], after: list[float], has_one_answer: bool, chance: float
) -> None:
    assert flips([change([after], [before])], 1, has_one_answer).chance.tolist() == [chance]


def lost(count: int) -> Flips:
    return flips([change([[0.0]] * count, [[1.0]] * count)], count)


def test_chance_is_counted_among_the_questions_that_could_have_broken() -> None:
    before = [[1.0]] * 3 + [[0.0]] * 2 + [[1.0]] * 95
    after = [[0.0]] * 3 + [[1.0]] * 2 + [[1.0]] * 95
    assert flips([change(after, before)], 100).p_value == pytest.approx(0.5)  # at least 3 of 5 heads
    assert flips([change(before, before)], 100).p_value == 1.0
    metrics_that_agree = [change([[0.0]] * 4, [[1.0]] * 4)] * 3
    assert flips(metrics_that_agree, 4).p_value == pytest.approx(1 / 16)


def test_related_questions_count_once() -> None:
    assert lost(6).p_value == pytest.approx(1 / 64)
    assert lost(6).of_groups(np.array([7, 7, 7, 8, 8, 8])).p_value == pytest.approx(1 / 4)
    mixed = flips([change([[0.0], [1.0], [0.0]], [[1.0], [0.0], [1.0]])], 3).of_groups(np.array([1, 1, 2]))
    assert (mixed.broken.tolist(), mixed.mended.tolist()) == ([False, True], [False, False])


@pytest.mark.heavy
def test_as_many_questions_break_by_chance_as_is_said() -> None:
    rng = np.random.default_rng(5)
    shown = 0
    for _ in range(400):
        skill = rng.uniform(0.2, 1.0, 60)[:, None]
        before, after = (rng.random((60, k)) < skill for k in (1, 4))
        shown += flips([change(after, before)], 60).p_value <= 0.1
    assert shown / 400 <= 0.13


@pytest.mark.parametrize(
    ("questions", "share", "chance", "least"),
    [
        (15, 0.05, 0.0, 3),
        (100, 0.05, 0.0, 6),
        (2, 0.05, 0.0, None),
        (3, 0.05, 0.0, 3),
        (15, 0.2, 0.0, 4),
        (15, 0.05, 1 / 7, 3),
        (15, 0.05, 0.5, 8),
        (7, 0.05, 0.5, None),
    ],
)
def test_the_fewest_broken_questions_that_fail(questions: int, share: float, chance: float, least: int | None) -> None:
    assert least_broken(questions, more_than=share, chance=chance, p=0.005, at_least=3) == least
