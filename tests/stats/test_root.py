"""Where a function crosses zero, and the standard normal distribution against scipy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from ragstone.stats.normal import normal_cdf, normal_quantile
from ragstone.stats.root import root_between

Function = Callable[[float], float]

SHAPES: dict[str, Callable[[float], Function]] = {
    "flat at the ends": lambda zero: lambda x: math.tanh(9.0 * (x - zero)),
    "flat at the zero": lambda zero: lambda x: (x - zero) ** 3,
    "steep on one side": lambda zero: lambda x: math.exp(x) - math.exp(zero),
    "with jumps": lambda zero: lambda x: math.floor(9.0 * (x - zero)) + 0.5,
    "falling": lambda zero: lambda x: zero - x,
}


@pytest.mark.parametrize("shape", SHAPES)
@given(zero=st.floats(-2.0, 2.0), end=st.floats(2.5, 9.0), tolerance=st.sampled_from([1e-8, 1e-3]))
def test_the_zero_is_found_within_the_tolerance_and_in_few_steps(
    shape: str, zero: float, end: float, tolerance: float
) -> None:
    points: list[float] = []

    def watched(x: float) -> float:
        points.append(x)
        return SHAPES[shape](zero)(x)

    assert root_between(watched, -3.0, end, tolerance=tolerance) == pytest.approx(zero, abs=tolerance)
    assert len(points) < 80
    assert root_between(watched, end, -3.0, tolerance=tolerance) == pytest.approx(zero, abs=tolerance)


def test_a_tolerance_finer_than_the_numbers_and_a_zero_at_an_end() -> None:
    assert root_between(lambda x: x - 3e12, 1e12, 9e12, tolerance=1e-8) == pytest.approx(3e12, rel=1e-14)
    for start, end in ((0.0, 1.0), (-1.0, 0.0)):
        assert root_between(lambda x: x, start, end, tolerance=1e-8) == 0.0
    with pytest.raises(ValueError, match="same sign"):
        root_between(lambda x: x * x + 1.0, -1.0, 1.0, tolerance=1e-8)


@given(st.floats(-37.0, 37.0), st.one_of(st.floats(0.0, 1.0), st.floats(0.0, 1e-6)))
def test_the_normal_distribution_is_that_of_scipy(z: float, p: float) -> None:
    assert normal_cdf(z) == pytest.approx(float(ndtr(z)), rel=1e-12, abs=0.0)
    assert normal_quantile(p) == pytest.approx(float(ndtri(p)), rel=1e-13, abs=1e-15)


def test_the_ends_are_infinitely_far_and_what_is_no_probability_has_no_quantile() -> None:
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="p must be in"):
            normal_quantile(p)
