"""A text plot of an interval and its threshold: ``····│·├──●─┤·`` holds, ``├─●──┤··│······`` is violated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.gate.verdict import Check

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
