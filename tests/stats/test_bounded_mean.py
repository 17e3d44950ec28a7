"""Gaffke's bound against what it must equal: Clopper-Pearson, and its own definition by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.bounded_mean import (
    blocks_of,
    lower_limit,
    mirrored,
    p_mean_at_least,
    positive_probability,
    upper_limit,
)

UNIT = (0.0, 1.0)


@pytest.mark.parametrize(("hits", "n"), [(3, 10), (9, 10), (29, 30), (97, 100), (1, 5)])
@pytest.mark.parametrize("bound", [0.3, 0.8, 0.95])
def test_the_saddlepoint_agrees_with_the_binomial_for_values_of_zero_and_one(hits: int, n: int, bound: float) -> None:
    weights = np.array([1.0 - bound, -bound, 1.0 - bound])
    exact = stats.binom.cdf(hits, n, bound)
    found = positive_probability(weights, np.array([hits, n - hits, 1.0]))
    assert found == pytest.approx(exact, abs=0.003, rel=0.02)


def test_the_saddlepoint_agrees_with_simulation_of_its_definition() -> None:
    rng = np.random.default_rng(5)
    x = rng.beta(3, 1, size=20)
    weights = rng.dirichlet(np.ones(21), size=100_000)
    for bound in (0.6, 0.7, 0.8, 0.85):
        simulated = float(np.mean(weights @ np.append(x, 1.0) >= bound))
        assert p_mean_at_least(blocks_of(x, None), bound, UNIT) == pytest.approx(simulated, abs=0.006)


@pytest.mark.parametrize(("weights", "found"), [([1.0, 2.0, 0.0], 1.0), ([-1.0, -2.0, 0.0], 0.0), ([0.0] * 3, 1.0)])
def test_weights_of_one_sign_need_no_solving(weights: list[float], found: float) -> None:
    assert positive_probability(np.array(weights), np.ones(3)) == found


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 10), (199, 200)])
def test_limits_of_zeros_and_ones_are_clopper_pearson(hits: int, n: int) -> None:
    blocks = blocks_of(np.array([1.0] * hits + [0.0] * (n - hits)), None)
    exact = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    limits = (lower_limit(blocks, 0.025, UNIT), upper_limit(blocks, 0.025, UNIT))
    assert limits == pytest.approx((exact.low, exact.high), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.9, 1.0]), min_size=1, max_size=40),
    st.sampled_from([0.01, 0.025, 0.1]),
)
def test_a_limit_is_where_the_p_value_crosses_the_level(values: list[float], level: float) -> None:
    blocks = blocks_of(np.array(values), None)
    low, high = lower_limit(blocks, level, UNIT), upper_limit(blocks, level, UNIT)
    assert 0.0 <= low <= np.mean(values) + 1e-9
    assert np.mean(values) - 1e-9 <= high <= 1.0
    if high < 1.0:
        assert p_mean_at_least(blocks, high, UNIT) == pytest.approx(level, rel=0.01, abs=1e-6)
    if low > 0.0:
        assert p_mean_at_least(mirrored(blocks), -low, (-1.0, 0.0)) == pytest.approx(level, rel=0.01, abs=1e-6)


def test_equal_blocks_are_counted_once_and_nothing_is_lost() -> None:
    blocks = blocks_of(np.array([1.0, 0.0, 0.0, 1.0, 0.5]), np.array([4, 4, 9, 9, 1]))
    assert (blocks.n, blocks.n_blocks, list(blocks.counts)) == (5, 3, [1.0, 2.0])
    assert float(np.sum(blocks.totals * blocks.counts)) == pytest.approx(2.5)
    assert blocks.typical_size == pytest.approx((4 + 4 + 1) / 5)
    assert list(mirrored(blocks).totals) == [-0.5, -1.0]
