"""Brent's method, step for step as in scipy."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from ragstone.stats.root import root

FUNCTIONS: list[Callable[[float, float], float]] = [
    lambda x, c: x - c,
    lambda x, c: x**3 - c**3,
    lambda x, c: math.atan(50.0 * (x - c)),
    lambda x, c: math.exp(3.0 * x) - math.exp(3.0 * c),
    lambda x, c: math.copysign(abs(x - c) ** 0.2, x - c),
]


@settings(max_examples=300)
@given(
    st.sampled_from(FUNCTIONS),
    st.floats(-1.0, 1.0),
    st.floats(1e-3, 2.0),
    st.floats(1e-3, 2.0),
    st.booleans(),
    st.sampled_from([1e-3, 1e-8, 1e-12]),
)
def test_the_steps_are_those_of_scipy(
    f: Callable[[float, float], float], c: float, left: float, right: float, falling: bool, xtol: float
) -> None:
    def steps(solve: Callable[..., float]) -> list[float]:
        """Where the function was asked, and the root, if one was found."""
        asked: list[float] = []

        def value(x: float) -> float:
            asked.append(x)
            return -f(x, c) if falling else f(x, c)

        try:
            found = solve(value, c - left, c + right, xtol=xtol)
            return [*asked, found]
        except RuntimeError:  # not found in 100 steps
            return asked

    assert steps(root) == pytest.approx(steps(brentq), rel=1e-12, abs=1e-15)


def test_a_root_at_an_end_is_found_and_none_in_between_is_an_error() -> None:
    assert root(lambda x: x, 0.0, 1.0, xtol=1e-8) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0, xtol=1e-8) == 1.0
    with pytest.raises(ValueError, match="the same sign"):
        root(lambda x: x + 1.0, 0.0, 1.0, xtol=1e-8)


def test_a_gate_does_without_the_optimisers_of_scipy() -> None:
    code = "import sys, ragstone.usecases.gate, ragstone.stats.intervals; assert 'scipy.optimize' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
