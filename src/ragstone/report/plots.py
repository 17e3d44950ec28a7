"""Geometry of the plots in the HTML page: numbers in, coordinates out; the template draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.formatting import change, counted, percent
from ragstone.gate.alignment import ContextsUsed
from ragstone.gate.verdict import CHANGES, Check, CheckKind
from ragstone.report.parts import Differences

WIDTH = 240.0
"""Width of a forest plot, in SVG units."""

_PAD = 20.0
_LABEL_WIDTH = 14.0


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from values `low`…`high` to x coordinates within WIDTH."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    zero: float | None

    def x(self, value: float) -> float:
        """The coordinate of `value`, clamped to the plot."""
        return round(_place(value, self.low, self.high), 2)


@dataclass(frozen=True, slots=True)
class Mark:
    """One check on an axis: the estimate, the ends of its interval, and its threshold."""

    x: float
    start: float
    end: float
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram, or of a rank: then its `name` is shown under it, at `middle`, if it is `labelled`."""

    x: float
    y: float
    width: float
    height: float
    label: str
    side: str = ""
    middle: float = 0.0
    name: str = ""
    labelled: bool = False


@dataclass(frozen=True, slots=True)
class Histogram:
    """Paired differences of one metric as bars; `zero` is where nothing changed."""

    bars: tuple[Bar, ...]
    zero: float
    ticks: tuple[Tick, ...]
    height: float


def _place(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low)
    return _PAD + min(max(share, 0.0), 1.0) * (WIDTH - 2 * _PAD)


def axis_for(checks: Sequence[Check], kinds: frozenset[CheckKind]) -> Axis | None:
    """An axis on which all `checks` of `kinds` (LEVELS or CHANGES) fit, with round ends; None if there are none."""
    values = [value for check in checks if check.kind in kinds for value in _values(check)]
    if not values:
        return None
    signed = kinds == CHANGES
    values.append(0.0 if signed else 1.0)
    step = _step(max(values) - min(values))
    low = math.floor(min(values) / step + 1e-9) * step
    high = math.ceil(max(values) / step - 1e-9) * step
    if low == high:  # nothing changed, and no drop is allowed
        low, high = low - step, high + step
    count = round((high - low) / step)
    marks = [low + index * step for index in range(count + 1)]
    return Axis(
        low=low,
        high=high,
        ticks=tuple(Tick(round(_place(mark, low, high), 2), _label(mark, step, signed=signed)) for mark in marks),
        zero=round(_place(0.0, low, high), 2) if signed else None,
    )


def mark(check: Check | None, axis: Axis | None) -> Mark | None:
    if check is None or axis is None or check.estimate is None:
        return None
    low, high = (check.interval.low, check.interval.high) if check.interval else (check.estimate, check.estimate)
    return Mark(
        x=axis.x(check.estimate),
        start=axis.x(low),
        end=axis.x(high),
        threshold=None if check.threshold is None else axis.x(check.threshold),
    )


def histogram(found: Differences, *, height: float = 80.0) -> Histogram:
    """Bars for the samples that changed; the number of unchanged ones is shown next to the plot."""
    used = [one for one in zip(found.edges, found.edges[1:], found.counts, strict=False) if one[2]]
    reach = min(1.0, max([0.1, *(max(abs(low), abs(high)) for low, high, _ in used)]))
    tallest = max((number for *_, number in used), default=1)
    bars = []
    for low, high, number in used:
        start, end = _place(low, -reach, reach), _place(high, -reach, reach)
        tall = max(2.0, height * number / tallest)
        bars.append(
            Bar(
                x=round(start + 0.5, 2),
                y=round(height - tall, 2),
                width=round(max(end - start - 1.0, 0.5), 2),
                height=round(tall, 2),
                side="worse" if (high <= 1e-9) is not found.lower_is_better else "better",
                label=f"{number:,} between {change(low)} and {change(high)}",
            )
        )
    ticks = tuple(
        Tick(round(_place(value, -reach, reach), 2), _label(value, 0.05, signed=True)) for value in (-reach, 0.0, reach)
    )
    return Histogram(tuple(bars), round(_place(0.0, -reach, reach), 2), ticks, height)


def rank_bars(found: ContextsUsed, *, height: float = 80.0) -> tuple[Bar, ...]:
    """A bar for each rank: the share of the answers with a context there that draw on it, as a part of `height`."""
    slot = (WIDTH - 2 * _PAD) / max(len(found.ranks), 5)
    bars = []
    for place, one in enumerate(found.ranks):
        share = one.used / one.answers if one.answers else 0.0
        tall = height * share
        name = f"{one.rank}+" if one.and_lower else str(one.rank)
        bars.append(
            Bar(
                x=round(_PAD + place * slot + 0.1 * slot, 2),
                y=round(height - tall, 2),
                width=round(0.8 * slot, 2),
                height=round(tall, 2),
                middle=round(_PAD + (place + 0.5) * slot, 2),
                name=name,
                label=f"rank {name}: {one.used:,} of {counted(one.answers, 'answer')} ({percent(share)})",
                labelled=place % (1 if slot >= _LABEL_WIDTH else 2) == 0,
            )
        )
    return tuple(bars)


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, for three to six steps over `span`."""
    if span <= 0:
        return 0.1
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= 5)


def _label(value: float, step: float, *, signed: bool) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if abs(value) < step / 1000:
        return "0"
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text.replace("-", "−")


def _values(check: Check) -> list[float]:
    values = [value for value in (check.estimate, check.threshold) if value is not None]
    return [*values, check.interval.low, check.interval.high] if check.interval else values
