"""Where a function crosses zero."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

_RELATIVE_TOLERANCE = 4.0 * sys.float_info.epsilon
_MOST_STEPS = 100


def root_between(function: Callable[[float], float], start: float, end: float, *, tolerance: float) -> float:
    """A zero of the continuous `function`, whose signs at `start` and `end` differ, to within `tolerance`.

    Brent's method, step by step as in `scipy.optimize.brentq`, whose import takes longer than a small gate. Source:
    R. Brent, "Algorithms for Minimization Without Derivatives" (1973), chapter 4.
    Raises ValueError where the signs are the same.
    """
    previous, current = start, end
    f_previous, f_current = function(previous), function(current)
    if f_previous == 0.0:
        return previous
    if f_current == 0.0:
        return current
    if not _signs_differ(f_previous, f_current):
        raise ValueError("the function has the same sign at both ends")
    # The zero lies between `current`, the best point so far, and `other`.
    other, f_other = previous, f_previous
    step = step_before = current - previous
    for _ in range(_MOST_STEPS):
        if f_previous != 0.0 and f_current != 0.0 and _signs_differ(f_previous, f_current):
            other, f_other = previous, f_previous
            step = step_before = current - previous
        if abs(f_other) < abs(f_current):
            previous, current, other = current, other, current
            f_previous, f_current, f_other = f_current, f_other, f_current
        least = (tolerance + _RELATIVE_TOLERANCE * abs(current)) / 2.0
        half = (other - current) / 2.0
        if f_current == 0.0 or abs(half) < least:
            return current
        attempt = math.inf
        if abs(step_before) > least and abs(f_current) < abs(f_previous):
            if previous == other:
                attempt = -f_current * (current - previous) / (f_current - f_previous)
            else:
                slope = (f_previous - f_current) / (previous - current)
                other_slope = (f_other - f_current) / (other - current)
                numerator = -f_current * (f_other * other_slope - f_previous * slope)
                attempt = numerator / (other_slope * slope * (f_other - f_previous))
        if 2.0 * abs(attempt) < min(abs(step_before), 3.0 * abs(half) - least):
            step_before, step = step, attempt
        else:
            step_before = step = half
        previous, f_previous = current, f_current
        current += step if abs(step) > least else math.copysign(least, half)
        f_current = function(current)
    raise ValueError(f"no zero was found in {_MOST_STEPS} steps")


def _signs_differ(a: float, b: float) -> bool:
    return math.copysign(1.0, a) != math.copysign(1.0, b)
