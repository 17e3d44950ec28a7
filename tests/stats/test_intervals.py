"""Intervals of means, shares and quantiles: the rule for each shape of data, and what they cover."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from ragstone.stats.intervals import (
    mean_interval,
    p_proportion_at_most,
    proportion_interval,
    student_interval,
)

PAIRED = (-1.0, 1.0)


# -- means -------------------------------------------------------------------------------------------------------------


def test_zeros_and_ones_get_the_exact_binomial_interval() -> None:
    found = mean_interval(np.array([1.0] * 18 + [0.0] * 2))
    exact = stats.binomtest(18, 20).proportion_ci(0.95, method="exact")
    assert "exact binomial" in found.method
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    perfect = mean_interval(np.ones(20))
    assert (perfect.estimate, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(0.025 ** (1 / 20))


def test_scores_and_differences_that_hardly_differ() -> None:
    same = mean_interval(np.full(20, 0.5))
    assert same.low < 0.5 < same.high
    none = mean_interval(np.zeros(12), bounds=PAIRED)
    assert (none.estimate, none.low, none.high) == (0.0, 0.0, 0.0)
    assert "no pair differs" in none.method
    one = mean_interval(np.array([0.0] * 19 + [-0.25]), bounds=PAIRED)
    assert one.low < -0.0125 < 0.0 < one.high


def test_groups_that_agree_within_and_more_confidence_widen_the_interval() -> None:
    values = np.repeat(np.array([1.0, 0.5, 1.0, 0.0, 1.0, 0.75, 0.25, 1.0]), 5)
    alone, grouped = mean_interval(values), mean_interval(values, groups=np.repeat(np.arange(8), 5))
    assert grouped.estimate == alone.estimate
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)
    values = np.random.default_rng(2).beta(5, 1, size=30)
    alone, single = mean_interval(values), mean_interval(values, groups=np.arange(100, 130))
    assert (single.low, single.high) == pytest.approx((alone.low, alone.high), abs=1e-7)
    narrow, wide = mean_interval(values, confidence=0.9), mean_interval(values, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


@settings(max_examples=60, deadline=None)
@given(arrays.arrays(np.float64, st.integers(1, 60), elements=st.floats(0.0, 1.0, width=32)))
def test_any_scores_give_an_interval_around_the_estimate_and_differences_its_mirror_image(values: np.ndarray) -> None:
    found = mean_interval(values)
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0
    differences = 2.0 * values[:40] - 1.0
    one, other = (mean_interval(sign * differences, bounds=PAIRED) for sign in (1.0, -1.0))
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=0.1)


@pytest.mark.parametrize("values", [[], [0.5, np.nan], [0.5, np.inf], [1.5]])
def test_values_that_can_not_be_scores_are_refused(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="values must be"):
        mean_interval(np.array(values))


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


# -- Student's t -------------------------------------------------------------------------------------------------------


def test_the_interval_of_unbounded_values_is_that_of_scipy() -> None:
    values = np.array([3.0, 4.5, 1.2, 8.8, 2.0])
    found = student_interval(values, confidence=0.9)
    low, high = stats.t.interval(0.9, 4, loc=values.mean(), scale=stats.sem(values))
    assert (found.estimate, found.low, found.high) == pytest.approx((values.mean(), low, high))
    one = student_interval(np.array([7.0]))
    assert (one.estimate, one.low, one.high) == (7.0, -math.inf, math.inf)
    next_two = student_interval(values, further=2, confidence=0.9)
    reach = (found.high - found.estimate) * math.sqrt(1 + 5 / 2)
    assert (next_two.low, next_two.high) == pytest.approx((found.estimate - reach, found.estimate + reach))


def test_a_false_fail_is_no_more_frequent_than_stated_for_long_tailed_values() -> None:
    draws = np.random.default_rng(1).lognormal(0.0, 1.0, size=(2000, 40))
    too_high = sum(student_interval(draw, confidence=0.95).low > math.exp(0.5) for draw in draws)
    assert too_high / len(draws) <= 0.025


# -- shares ------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_shares_have_the_clopper_pearson_interval(case: tuple[int, int]) -> None:
    hits, n = case
    exact = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    found = proportion_interval(hits, n)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert found.estimate == hits / n


@pytest.mark.parametrize("bound", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (3, 10), (97, 100)])
def test_shares_have_the_exact_binomial_p_values(hits: int, n: int, bound: float) -> None:
    assert p_proportion_at_most(hits, n, bound) == pytest.approx(stats.binom.sf(hits - 1, n, bound), abs=1e-12)
