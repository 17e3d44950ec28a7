"""Intervals for means: the rule for each shape of data, and what they cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from ragstone.stats.intervals import mean_interval, reached

PAIRED = (-1.0, 1.0)


def test_zeros_and_ones_get_the_exact_binomial_interval() -> None:
    found = mean_interval(np.array([1.0] * 18 + [0.0] * 2))
    exact = stats.binomtest(18, 20).proportion_ci(0.95, method="exact")
    assert "Clopper-Pearson" in found.method
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    perfect = mean_interval(np.ones(20))
    assert perfect.estimate == perfect.high == 1.0
    assert perfect.low == pytest.approx(0.025 ** (1 / 20))


def test_equal_scores_between_the_bounds_have_a_width() -> None:
    found = mean_interval(np.full(20, 0.5))
    assert found.low < 0.5 < found.high


def test_differences_that_are_all_zero_are_exactly_zero() -> None:
    found = mean_interval(np.zeros(12), bounds=PAIRED)
    assert (found.estimate, found.low, found.high) == (0.0, 0.0, 0.0)
    assert "no pair differs" in found.method


def test_one_changed_pair_gives_differences_a_width() -> None:
    found = mean_interval(np.array([0.0] * 19 + [-0.25]), bounds=PAIRED)
    assert found.low < -0.0125 < 0.0 < found.high


def test_differences_are_held_to_the_largest_seen_or_half_the_scale() -> None:
    assert reached(np.array([0.1, -0.2]), PAIRED) == (-0.5, 0.5)
    assert reached(np.array([0.1, -0.8]), PAIRED) == (-0.8, 0.8)
    assert reached(np.array([0.1, 0.2]), (0.0, 1.0)) == (0.0, 1.0)


def test_groups_that_agree_within_widen_the_interval() -> None:
    values = np.repeat(np.array([1.0, 0.5, 1.0, 0.0, 1.0, 0.75, 0.25, 1.0]), 5)
    alone = mean_interval(values)
    grouped = mean_interval(values, groups=np.repeat(np.arange(8), 5))
    assert grouped.n_groups == 8
    assert grouped.estimate == alone.estimate
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_groups_of_one_change_nothing() -> None:
    values = np.random.default_rng(2).beta(5, 1, size=30)
    alone = mean_interval(values)
    grouped = mean_interval(values, groups=np.arange(100, 130))
    assert (grouped.low, grouped.high) == pytest.approx((alone.low, alone.high), abs=1e-7)


def test_a_higher_confidence_gives_a_wider_interval() -> None:
    values = np.random.default_rng(3).beta(5, 1, size=30)
    narrow, wide = mean_interval(values, confidence=0.9), mean_interval(values, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


@settings(max_examples=60, deadline=None)
@given(arrays.arrays(np.float64, st.integers(1, 60), elements=st.floats(0.0, 1.0, width=32)))
def test_any_scores_give_an_interval_within_the_bounds_around_the_estimate(values: np.ndarray) -> None:
    found = mean_interval(values)
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


@settings(max_examples=40, deadline=None)
@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1.0, 1.0, width=32)))
def test_the_interval_of_mirrored_differences_is_the_mirror_image(values: np.ndarray) -> None:
    found, mirror = mean_interval(values, bounds=PAIRED), mean_interval(-values, bounds=PAIRED)
    assert (found.low, found.high) == pytest.approx((-mirror.high, -mirror.low), abs=1e-6)


@pytest.mark.parametrize(
    "values",
    [np.array([]), np.array([0.5, np.nan]), np.array([0.5, np.inf]), np.array([1.5]), np.array([[0.5]])],
)
def test_values_that_can_not_be_scores_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="values must be"):
        mean_interval(values)


def test_groups_of_another_length_and_confidences_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="one label a value"):
        mean_interval(np.ones(3), groups=np.arange(2))
    for confidence in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="confidence"):
            mean_interval(np.ones(3), confidence=confidence)


@pytest.mark.heavy
def test_intervals_of_rare_large_losses_cover_the_truth() -> None:
    # Here a t interval covers about four times in five.
    rng = np.random.default_rng(12)
    inside = 0
    for _ in range(150):
        lost = np.where(rng.random(40) < 0.08, -0.6, rng.normal(0.0, 0.01, size=40))
        found = mean_interval(np.clip(lost, -1.0, 1.0), bounds=PAIRED)
        inside += found.low <= -0.048 <= found.high
    assert inside >= 0.94 * 150
