"""Scales of the plots in the HTML page: numbers in, coordinates out; the template draws
them as SVG."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragstone.gate.verdict import CHANGES, Check

WIDTH = 240.0
"""Width of a plot, in SVG units."""

_PAD = 20.0
_STEPS = (0.05, 0.1, 0.2, 0.5)
_MAX_STEPS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from values to x coordinates within WIDTH."""

    low: float
    """The value at its left end."""
    high: float
    """The value at its right end."""
    ticks: tuple[float, ...]
    """The values with a label."""
    signed: bool
    """Whether it is one of differences."""

    def x(self, value: float) -> float:
        """The coordinate of `value`, clamped to the plot."""
        share = (value - self.low) / (self.high - self.low)
        return round(_PAD + min(max(share, 0.0), 1.0) * (WIDTH - 2 * _PAD), 2)


def axis_for(checks: Sequence[Check], kinds: Collection[str]) -> Axis | None:
    """An axis on which all `checks` of `kinds` (LEVELS or CHANGES) fit, with round
    ends; None if there are none."""
    ends: list[float | None] = []
    for check in checks:
        if check.kind in kinds:
            ends += [check.estimate, check.threshold]
            if check.interval is not None:
                ends += [check.interval.low, check.interval.high]
    values = [value for value in ends if value is not None]
    if not values:
        return None
    is_of_changes = kinds == CHANGES
    values.append(0.0 if is_of_changes else 1.0)
    lowest = min(values)
    highest = max(values)
    fitting_steps = [step for step in _STEPS if highest - lowest <= _MAX_STEPS * step]
    step = min(fitting_steps, default=_STEPS[-1])
    first = math.floor(lowest / step + 1e-9)
    last = math.ceil(highest / step - 1e-9)
    if first == last:  # nothing changed, and no drop is allowed
        first -= 1
        last += 1
    ticks = tuple(round(step * number, 2) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, is_of_changes)
