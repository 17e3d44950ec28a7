"""The standard normal distribution, against scipy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from ragstone.stats.normal import normal_cdf, normal_quantile


@given(st.floats(-37.0, 37.0))
def test_the_distribution_function_is_that_of_scipy(z: float) -> None:
    assert normal_cdf(z) == pytest.approx(float(ndtr(z)), rel=1e-12, abs=0.0)


@given(st.one_of(st.floats(0.0, 1.0), st.floats(0.0, 1e-6)))
def test_the_quantile_is_that_of_scipy(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(float(ndtri(p)), rel=1e-13, abs=1e-15)


def test_the_ends_are_infinitely_far() -> None:
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_what_is_no_probability_has_no_quantile(p: float) -> None:
    with pytest.raises(ValueError, match="p must be in"):
        normal_quantile(p)
