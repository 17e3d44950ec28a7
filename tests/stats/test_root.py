"""Where a function crosses zero: every step as scipy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from ragstone.stats.root import root_between

Function = Callable[[float], float]

SHAPES: dict[str, Callable[[float], Function]] = {
    "flat at the ends": lambda zero: lambda x: math.tanh(9.0 * (x - zero)),
    "flat at the zero": lambda zero: lambda x: (x - zero) ** 3,
    "steep on one side": lambda zero: lambda x: math.exp(x) - math.exp(zero),
    "with jumps": lambda zero: lambda x: math.floor(9.0 * (x - zero)) + 0.5,
    "falling": lambda zero: lambda x: zero - x,
}


def points(solve: Callable[[Function], float], function: Function) -> tuple[float, list[float]]:
    """The zero, and where the function was looked at on the way."""
    asked: list[float] = []

    def watched(x: float) -> float:
        asked.append(x)
        return function(x)

    return solve(watched), asked


@pytest.mark.parametrize("shape", SHAPES)
@given(zero=st.floats(-2.0, 2.0), end=st.floats(2.5, 9.0))
def test_it_takes_the_steps_of_scipy(shape: str, zero: float, end: float) -> None:
    function = SHAPES[shape](zero)
    ours = points(lambda f: root_between(f, -3.0, end, tolerance=1e-8), function)
    assert ours == points(lambda f: float(brentq(f, -3.0, end, xtol=1e-8)), function)
    assert root_between(function, end, -3.0, tolerance=1e-8) == brentq(function, end, -3.0, xtol=1e-8)


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (-1.0, 0.0)])
def test_a_zero_at_an_end_is_the_zero(start: float, end: float) -> None:
    assert root_between(lambda x: x, start, end, tolerance=1e-8) == 0.0


def test_the_signs_at_the_ends_must_differ() -> None:
    with pytest.raises(ValueError, match="same sign"):
        root_between(lambda x: x * x + 1.0, -1.0, 1.0, tolerance=1e-8)
