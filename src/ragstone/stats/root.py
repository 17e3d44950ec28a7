"""Where a function crosses zero."""

from __future__ import annotations

import sys
from collections.abc import Callable

_RELATIVE_TOLERANCE = 4.0 * sys.float_info.epsilon


def root_between(
    function: Callable[[float], float], start: float, end: float, *, tolerance: float
) -> float:
    """A zero of the continuous `function`, whose signs at `start` and `end` differ, to
    within `tolerance`.

    By false position: the next guess is where a line between both ends crosses zero.
    The value at an end that stays twice is scaled down, so that both ends approach the
    zero. Source: N. Anderson and Å. Björck, "A new high order method of regula falsi
    type for computing a root of an equation" (1973). Raises ValueError where the signs
    are the same.
    """
    low = min(start, end)
    high = max(start, end)
    at_low = function(low)
    at_high = function(high)
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
            if moved_before == "low":
                at_high *= _scale(at_low, at_guess)
            low = guess
            at_low = at_guess
        else:
            if moved_before == "high":
                at_low *= _scale(at_high, at_guess)
            high = guess
            at_high = at_guess
        moved_before = moved
    return (low + high) / 2.0


def _scale(before: float, now: float) -> float:
    """By how much the value at the other end is reduced when the value at one went from
    `before` to `now`."""
    if abs(now) < abs(before):
        return 1.0 - now / before
    return 0.5
