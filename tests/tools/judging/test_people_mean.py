"""Prediction-powered means: few labels and many scores."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.arrays import Floats
from ragstone.stats.intervals import mean_interval
from ragstone.tools.judging.people_mean import inverse_weights, people_mean


def population(rng: np.random.Generator, n: int, error: float) -> tuple[Floats, Floats]:
    """Labels of which four in five pass, and scores that miss them by `error`."""
    labels = (rng.random(n) < 0.8).astype(float)
    return labels, np.clip(labels * 0.9 + rng.normal(0.02, error, n), 0, 1)


def test_a_good_judge_narrows_the_interval() -> None:
    labels, scores = population(np.random.default_rng(1), 600, 0.05)
    mean = people_mean(labels[:80], scores[:80], np.ones(80), scores)
    alone = mean_interval(labels[:80])
    assert mean.judge_weight > 0.7
    assert mean.high - mean.low < 0.7 * (alone.high - alone.low)
    assert mean.low < 0.8 < mean.high


def test_a_judge_that_says_nothing_leaves_the_labels_alone() -> None:
    labels, _ = population(np.random.default_rng(4), 50, 0.1)
    mean = people_mean(labels, np.full(50, 0.5), np.ones(50), np.full(300, 0.5))
    alone = mean_interval(labels)
    assert mean.judge_weight == 0.0
    assert (mean.estimate, mean.low, mean.high) == pytest.approx((alone.estimate, alone.low, alone.high), abs=1e-9)


def test_few_labels_that_all_agree_still_leave_a_width() -> None:
    mean = people_mean(np.ones(10), np.ones(10), np.ones(10), np.ones(200))
    assert mean.low == pytest.approx(0.025 ** (1 / 10))


@pytest.mark.heavy
@pytest.mark.parametrize("error", [0.1, 0.4])
@pytest.mark.parametrize("group_size", [1, 5])
@pytest.mark.parametrize("unsure_more_often", [False, True])
def test_each_end_misses_the_mean_at_most_as_often_as_it_says(
    error: float, group_size: int, unsure_more_often: bool
) -> None:
    missed = np.zeros(2)
    runs = 200
    size = 300
    n = 60
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        group_count = size // group_size
        groups = np.repeat(np.arange(group_count), group_size)
        typical = (rng.random(group_count) < 0.8)[groups]
        labels = np.where(rng.random(size) < 0.8, typical, rng.random(size) < 0.8).astype(float)
        scores = np.clip(0.8 * labels + 0.1 + rng.normal(0, error, size), 0, 1)
        unsure = np.flatnonzero((scores > 0.2) & (scores < 0.8))
        drawn = rng.choice(size, n, replace=False)
        probabilities = np.ones(n)
        if unsure_more_often:
            sure = np.setdiff1d(np.arange(size), unsure)
            unsure_size = min(len(unsure), 2 * n // 3)
            strata = ((unsure, unsure_size), (sure, n - unsure_size))
            drawn = np.concatenate([rng.choice(stratum, count, replace=False) for stratum, count in strata])
            probabilities = np.concatenate([np.full(count, count / len(stratum)) for stratum, count in strata])
        weights = inverse_weights(probabilities)
        mean = people_mean(labels[drawn], scores[drawn], weights, scores, groups=groups[drawn], all_groups=groups)
        missed += (mean.low > 0.8, mean.high < 0.8)
    assert np.all(missed / runs <= 0.04)  # 2.5 %, and the noise of 200 runs


def test_equal_probabilities_are_no_weights() -> None:
    assert inverse_weights(np.full(5, 0.3)) == pytest.approx(np.ones(5))
    assert inverse_weights(np.array([0.25, 0.5])) == pytest.approx(np.array([4 / 3, 2 / 3]))
