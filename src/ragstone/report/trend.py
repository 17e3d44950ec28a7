"""Checks and trends as small plots of characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.gate.verdict import Check
from ragstone.history.trend import Trend
from ragstone.report.parts import MetricPart
from ragstone.report.plots import check_values, span

_MIN_HALF = 0.02
_MAX_HALF = 0.25
_BLOCKS = "▁▂▃▄▅▆▇█"
_RUNS = 40
_JUDGE, _GOLDEN = "│", "┊"


@dataclass(frozen=True, slots=True)
class Scale:
    """A common scale for several plots: the threshold in the middle, `half` units to either side of it."""

    half: float

    @classmethod
    def for_checks(cls, checks: Iterable[Check]) -> Scale:
        """The smallest scale on which the intervals of `checks` fit, within 0.02 and 0.25 either side."""
        reach = [_MIN_HALF]
        for check in checks:
            if check.threshold is not None:
                reach += [abs(value - check.threshold) for value in check_values(check)]
        return cls(min(max(reach), _MAX_HALF))

    def draw(self, check: Check, width: int = 21) -> str:
        """The interval of `check` in `width` characters; empty if there is nothing to draw.

        ``│`` is the threshold, ``●`` the estimate, ``├`` and ``┤`` the ends of the interval; ``◂`` and ``▸`` mark an
        interval that continues beyond the scale.
        """
        if check.threshold is None or check.estimate is None:
            return ""
        ends = (check.interval.low, check.interval.high) if check.interval else (check.estimate, check.estimate)
        middle, last = width // 2, width - 1
        start, end, dot = (self._cell(value - check.threshold, middle) for value in (*ends, check.estimate))
        cells = ["─" if start < cell < end else "·" for cell in range(width)]
        marks = {start: "├", end: "┤", middle: "┼" if start < middle < end else "│"}
        if start < 0:
            marks[0] = "◂"
        if end > last:
            marks[last] = "▸"
        marks[min(max(dot, 0), last)] = "●"
        return "".join(marks.get(cell, line) for cell, line in enumerate(cells))

    def _cell(self, distance: float, middle: int) -> int:
        """The cell at `distance` from the threshold; the middle one only if it is exactly there."""
        cell = round(distance / self.half * middle)
        if cell == 0 and distance:
            cell = 1 if distance > 0 else -1
        return middle + cell


def interval_pictures(
    rows: Iterable[MetricPart], checks: Iterable[Check], width: int = 21
) -> dict[str | None, tuple[str, str]]:
    """Kind and interval of the check that decides each row, by the check's name; all are drawn on one scale."""
    names = {row.check for row in rows}
    deciding = [check for check in checks if check.name in names]
    scale = Scale.for_checks(deciding)
    return {check.name: (str(check.kind), scale.draw(check, width)) for check in deciding}


def sparkline(trend: Trend) -> str:
    """``▅▅▆│▃▃``: a block for each of the newest runs; ``│`` marks a new judge, ``┊`` a new golden set."""
    low, high = span(trend)
    text = ""
    for point in trend.points[-_RUNS:]:
        if text:
            marks = (_JUDGE if change.startswith("judge") else _GOLDEN for change in point.changed)
            text += "".join(dict.fromkeys(marks))
        share = None if point.value is None else (point.value - low) / (high - low)
        text += " " if share is None else _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)]
    return text
