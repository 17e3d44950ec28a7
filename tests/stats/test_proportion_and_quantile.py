"""Exact limits for shares, and order-statistic limits for quantiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.intervals import p_proportion_at_most, proportion_interval, quantile_interval


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


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="hits"):
        proportion_interval(hits, n)
    with pytest.raises(ValueError, match="confidence"):
        proportion_interval(1, 2, confidence=1.0)


def test_a_quantile_is_one_of_the_values_and_lies_within_its_limits() -> None:
    values = np.random.default_rng(1).exponential(size=400)
    found = quantile_interval(values, 0.95)
    assert found.estimate in values
    assert np.mean(values <= found.estimate) >= 0.95
    assert found.low < found.estimate < found.high


def test_too_few_values_leave_a_high_quantile_without_an_upper_limit() -> None:
    found = quantile_interval(np.arange(20.0), 0.95)
    assert found.high == math.inf
    assert math.isfinite(found.low)
    assert quantile_interval(np.arange(3.0), 0.05).low == -math.inf


def test_the_limits_of_the_median_are_the_tabulated_ranks() -> None:
    # n = 10: ranks 2 and 9 cover with 97.9 %, ranks 3 and 8 with 89.1 % only.
    found = quantile_interval(np.arange(1.0, 11.0), 0.5)
    assert (found.low, found.high) == (2.0, 9.0)


def test_limits_cover_the_quantile() -> None:
    rng = np.random.default_rng(2)
    truth = -math.log(0.05)
    inside = 0
    for _ in range(500):
        found = quantile_interval(rng.exponential(size=150), 0.95)
        inside += found.low <= truth <= found.high
    assert inside >= 0.94 * 500


@settings(max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_any_values_give_ordered_limits(values: list[float], q: float) -> None:
    found = quantile_interval(np.array(values), q)
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1.0, math.nan], 0.5), ([1.0], 1.0)])
def test_quantiles_that_make_no_sense_are_refused(values: list[float], q: float) -> None:
    with pytest.raises(ValueError, match=r"quantile needs|q and confidence"):
        quantile_interval(np.array(values), q)
