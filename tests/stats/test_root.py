"""Where a function crosses zero."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def test_the_zero_is_within_the_tolerance(shape: str, zero: float, end: float, tolerance: float) -> None:
    function = SHAPES[shape](zero)
    assert root_between(function, -3.0, end, tolerance=tolerance) == pytest.approx(zero, abs=tolerance)
    assert root_between(function, end, -3.0, tolerance=tolerance) == pytest.approx(zero, abs=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_few_steps_are_taken(shape: str) -> None:
    points: list[float] = []

    def watched(x: float) -> float:
        points.append(x)
        return SHAPES[shape](0.7)(x)

    root_between(watched, -3.0, 5.0, tolerance=1e-8)
    assert len(points) < 70


def test_a_tolerance_finer_than_the_numbers_ends_too() -> None:
    assert root_between(lambda x: x - 3e12, 1e12, 9e12, tolerance=1e-8) == pytest.approx(3e12, rel=1e-14)


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (-1.0, 0.0)])
def test_a_zero_at_an_end_is_the_zero(start: float, end: float) -> None:
    assert root_between(lambda x: x, start, end, tolerance=1e-8) == 0.0


def test_the_signs_at_the_ends_must_differ() -> None:
    with pytest.raises(ValueError, match="same sign"):
        root_between(lambda x: x * x + 1.0, -1.0, 1.0, tolerance=1e-8)
