"""Differences between unequal numbers of answers, decided by moving the labels round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.stats.family import Hypothesis, adjusted_p_values, decide
from ragstone.stats.signflip import Answers, relabelled_sums

Floats = NDArray[np.float64]


def hypothesis(now: Floats, then: Floats, bound: float = 0.0, groups: NDArray[np.int64] | None = None) -> Hypothesis:
    answers = Answers(now, then, np.zeros(len(now), dtype=np.bool_))
    difference = np.nanmean(now, axis=1) - np.nanmean(then, axis=1)
    return Hypothesis("drop", difference, np.arange(len(now)), bound, (-1.0, 1.0), groups, answers=answers)


def test_the_ways_of_a_question_are_its_differences_with_another_answer_as_the_baseline_s() -> None:
    answers = Answers(np.array([[1.0, 0.4, 0.7]]), np.array([[0.1]]), np.array([False]))
    found = answers.relabelled(0.0)[0]
    assert found[0] == pytest.approx(0.6)
    # The baseline's answer is 0.1, then each of the other three.
    assert sorted(set(found.round(9))) == pytest.approx([-0.6, -0.2, 0.2, 0.6])
    assert len(found) == answers.ways == 8
    assert found.sum() == pytest.approx(0.0)


def test_answers_that_are_one_answer_only_change_sides() -> None:
    answers = Answers(np.array([[1.0, 1.0, 1.0]]), np.array([[0.5]]), np.array([True]))
    assert sorted(answers.relabelled(0.0)[0]) == [-0.5] * 4 + [0.5] * 4


def test_an_answer_without_a_score_is_left_out_of_the_means() -> None:
    answers = Answers(np.array([[1.0, np.nan]]), np.array([[0.5]]), np.array([False]))
    assert sorted(set(answers.relabelled(0.0)[0])) == [-0.5, 0.0, 0.5]


def test_one_bad_answer_in_five_fails_as_few_healthy_runs_as_promised() -> None:
    """Nothing changed: each answer scores 1, or seldom 0. Four answers are compared with the baseline's one."""
    rng = np.random.default_rng(5)
    failed, by_signs = [], []
    for _ in range(300):
        scores = np.where(rng.random((30, 5)) < 0.05, 0.0, 1.0)
        one = hypothesis(scores[:, 1:], scores[:, :1])
        failed.append(adjusted_p_values([one])[1][0] <= 0.05)
        by_signs.append(adjusted_p_values([replace(one, answers=None)])[1][0] <= 0.05)
    assert np.mean(failed) <= 0.07
    assert np.mean(by_signs) >= 0.12  # what the labels are moved for


def test_groups_move_together_and_other_hypotheses_may_be_plain() -> None:
    rng = np.random.default_rng(6)
    then = rng.random((40, 1))
    now = np.clip(then - 0.2 + rng.normal(0.0, 0.05, (40, 3)), 0.0, 1.0)
    groups = np.arange(40) // 4
    drop = hypothesis(now, then, -0.02, groups)
    floor = Hypothesis("floor", now.mean(axis=1), np.arange(40), 0.05, groups=groups)
    found = decide([drop, floor])
    assert [one.below for one in found] == [True, False]
    assert found[0].p_below < 0.01


def test_the_same_data_and_seed_give_the_same_sums_and_the_first_is_the_data() -> None:
    totals = np.random.default_rng(7).normal(size=(3000, 4, 2))
    first = relabelled_sums(totals, draws=64, seed=3)
    assert np.array_equal(first, relabelled_sums(totals, draws=64, seed=3))
    assert first[0] == pytest.approx(totals[:, 0, :].sum(axis=0))
