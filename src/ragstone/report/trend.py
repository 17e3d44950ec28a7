"""Checks and trends as small plots: characters for text, and coordinates for the HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.formatting import score
from ragstone.gate.verdict import Check
from ragstone.history.trend import Trend

_MIN_HALF = 0.02
_MAX_HALF = 0.25


@dataclass(frozen=True, slots=True)
class Scale:
    """A common scale for several plots: the threshold in the middle, `half` units to either side of it."""

    half: float

    @classmethod
    def for_checks(cls, checks: Iterable[Check]) -> Scale:
        """The smallest scale on which the intervals of `checks` fit, within 0.02 and 0.25 either side."""
        reach = [
            abs(value - check.threshold) for check in checks if check.threshold is not None for value in _values(check)
        ]
        return cls(min(max([*reach, _MIN_HALF]), _MAX_HALF))

    def draw(self, check: Check, width: int = 21) -> str:
        """The interval of `check` in `width` characters; empty if there is nothing to draw.

        ``│`` is the threshold, ``●`` the estimate, ``├`` and ``┤`` the ends of the interval; ``◂`` and ``▸`` mark an
        interval that continues beyond the scale.
        """
        values = _values(check)
        if check.threshold is None or not values:
            return ""
        middle = width // 2
        cells = ["·"] * width
        low, high = (check.interval.low, check.interval.high) if check.interval else (values[0], values[0])
        start, end = (self._cell(value - check.threshold, middle) for value in (low, high))
        for cell in range(max(start, 0), min(end, width - 1) + 1):
            cells[cell] = "─"
        _mark_end(cells, start, "├")
        _mark_end(cells, end, "┤")
        cells[middle] = "┼" if start < middle < end else "│"
        if check.estimate is not None:
            dot = self._cell(check.estimate - check.threshold, middle)
            cells[min(max(dot, 0), width - 1)] = "●"
        return "".join(cells)

    def _cell(self, distance: float, middle: int) -> int:
        """The cell at `distance` from the threshold; the middle one only if it is exactly there."""
        cell = round(distance / self.half * middle)
        if cell == 0 and distance:
            cell = 1 if distance > 0 else -1
        return middle + cell


def _mark_end(cells: list[str], cell: int, mark: str) -> None:
    if cell < 0:
        cells[0] = "◂"
    elif cell >= len(cells):
        cells[-1] = "▸"
    else:
        cells[cell] = mark


def _values(check: Check) -> list[float]:
    values = [] if check.estimate is None else [check.estimate]
    return [*values, check.interval.low, check.interval.high] if check.interval else values


WIDTH = 300.0
HEIGHT = 56.0

_BLOCKS = "▁▂▃▄▅▆▇█"
_MIN_SPAN = 0.1
_PAD = 6.0
_JUDGE, _GOLDEN = "│", "┊"


def span(trend: Trend) -> tuple[float, float]:
    """The range of the plot: all values, and at least a tenth of the scale."""
    low, high = min(trend.values), max(trend.values)
    room = max(0.0, _MIN_SPAN - (high - low)) / 2.0
    low, high = low - room, high + room
    shift = max(0.0, -low) - max(0.0, high - 1.0)
    return low + shift, high + shift


def sparkline(trend: Trend, *, most: int = 40) -> str:
    """``▅▅▆│▃▃``: a block for each of the newest runs; ``│`` marks a new judge, ``┊`` a new golden set."""
    low, high = span(trend)
    cells: list[str] = []
    for index, point in enumerate(trend.points[-most:]):
        if index:
            cells += dict.fromkeys(_JUDGE if change.startswith("judge") else _GOLDEN for change in point.changed)
        if point.value is None:
            cells.append(" ")
        else:
            cells.append(_BLOCKS[min(len(_BLOCKS) - 1, int((point.value - low) / (high - low) * len(_BLOCKS)))])
    return "".join(cells)


@dataclass(frozen=True, slots=True)
class Dot:
    """One run. `word` is its verdict, `label` its tooltip."""

    x: float
    y: float
    word: str
    label: str


@dataclass(frozen=True, slots=True)
class Change:
    """A vertical line where the judge or the golden set changed."""

    x: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A trend as coordinates within WIDTH × HEIGHT. `line` is the path through all runs."""

    line: str
    dots: tuple[Dot, ...]
    changes: tuple[Change, ...]
    low: float
    high: float


def picture(trend: Trend) -> Picture:
    low, high = span(trend)
    step = (WIDTH - 2 * _PAD) / max(1, len(trend.points) - 1)
    dots, changes = [], []
    for index, point in enumerate(trend.points):
        x = round(_PAD + index * step, 2)
        if point.changed and index:
            kind = "judge" if any(change.startswith("judge") for change in point.changed) else "golden"
            label = f"{point.time:%Y-%m-%d}: {', '.join(point.changed)}"
            changes.append(Change(round(x - step / 2, 2), kind, label))
        if point.value is not None:
            y = round(_PAD + (high - point.value) / (high - low) * (HEIGHT - 2 * _PAD), 2)
            commit = f", commit {point.commit[:7]}" if point.commit else ""
            label = f"{point.time:%Y-%m-%d}{commit}: {score(point.value)} ({point.verdict})"
            dots.append(Dot(x, y, point.verdict, label))
    line = " ".join(f"{'L' if index else 'M'}{dot.x:g} {dot.y:g}" for index, dot in enumerate(dots))
    return Picture(line, tuple(dots), tuple(changes), low, high)
