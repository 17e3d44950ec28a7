"""Where a function crosses zero."""

from __future__ import annotations

import sys
from collections.abc import Callable

_RELATIVE_TOLERANCE = 4.0 * sys.float_info.epsilon


def root_between(function: Callable[[float], float], start: float, end: float, *, tolerance: float) -> float:
    """A zero of the continuous `function`, whose signs at `start` and `end` differ, to within `tolerance`.

    By false position: the next guess is where a line between both ends crosses zero. An end that stays twice counts
    half, so that both ends approach the zero. Source: M. Dowell and P. Jarratt, "A modified regula falsi method for
    computing the root of an equation" (1971).
    Raises ValueError where the signs are the same.
    """
    low, high = min(start, end), max(start, end)
    at_low, at_high = function(low), function(high)
    if at_low == 0.0:
        return low
    if at_high == 0.0:
        return high
    if (at_low > 0.0) == (at_high > 0.0):
        raise ValueError("the function has the same sign at both ends")
    width = max(tolerance, _RELATIVE_TOLERANCE * max(abs(low), abs(high)))
    moved_before = ""
    while high - low > width:
        crossing = low + (high - low) * at_low / (at_low - at_high)
        guess = min(max(crossing, low + width / 2.0), high - width / 2.0)
        at_guess = function(guess)
        if at_guess == 0.0:
            return guess
        moved = "low" if (at_guess > 0.0) == (at_low > 0.0) else "high"
        if moved == "low":
            low, at_low = guess, at_guess
            if moved_before == "low":
                at_high /= 2.0
        else:
            high, at_high = guess, at_guess
            if moved_before == "high":
                at_low /= 2.0
        moved_before = moved
    return (low + high) / 2.0
