"""The root of a function of one variable."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, ulp

_STEPS = 100


def root(f: Callable[[float], float], a: float, b: float, *, xtol: float) -> float:
    """A root of `f` between `a` and `b`, where it has opposite signs, to within `xtol`: Brent's method.

    The same steps as `scipy.optimize.brentq`, whose package takes longer to import than a small run takes. Raises
    ValueError if the signs are the same, RuntimeError after 100 steps. Source: R. P. Brent, "Algorithms for
    Minimization Without Derivatives" (1973), chapter 4.
    """
    before, now = a, b
    f_before, f_now = f(before), f(now)
    if f_before == 0.0 or f_now == 0.0:
        return before if f_before == 0.0 else now
    if (f_before < 0.0) == (f_now < 0.0):
        raise ValueError(f"f has the same sign at {a} and {b}")
    across = f_across = step = last_step = 0.0
    for _ in range(_STEPS):
        if f_before != 0.0 and (f_before < 0.0) != (f_now < 0.0):
            across, f_across = before, f_before
            last_step = step = now - before
        if abs(f_across) < abs(f_now):
            before, now, across = now, across, now
            f_before, f_now, f_across = f_now, f_across, f_now
        delta = (xtol + 4.0 * ulp(1.0) * abs(now)) / 2.0
        half = (across - now) / 2.0
        if f_now == 0.0 or abs(half) < delta:
            return now
        tried = None
        if abs(last_step) > delta and abs(f_now) < abs(f_before):
            if before == across:
                tried = -f_now * (now - before) / (f_now - f_before)
            else:
                d_before = (f_before - f_now) / (before - now)
                d_across = (f_across - f_now) / (across - now)
                tried = -f_now * (f_across * d_across - f_before * d_before)
                tried /= d_across * d_before * (f_across - f_before)
        if tried is not None and 2.0 * abs(tried) < min(abs(last_step), 3.0 * abs(half) - delta):
            last_step, step = step, tried
        else:
            last_step = step = half
        before, f_before = now, f_now
        now += step if abs(step) > delta else copysign(delta, half)
        f_now = f(now)
    raise RuntimeError(f"no root between {a} and {b} was found in {_STEPS} steps")
