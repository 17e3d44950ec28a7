"""Checks and trends as small plots of characters."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.gate.verdict import Check
from ragstone.history.trend import Trend
from ragstone.report.parts import MetricPart
from ragstone.report.plots import check_values, span

_MIN_HALF = 0.02
_MAX_HALF = 0.25
_BLOCKS = "▁▂▃▄▅▆▇█"
_RUNS = 40
_JUDGE, _GOLDEN = "│", "┊"


def interval_pictures(
    rows: Iterable[MetricPart], checks: Iterable[Check], width: int = 21
) -> dict[str | None, tuple[str, str]]:
    """Kind and interval of the check that decides each row, by the check's name; all
    are drawn on one scale."""
    names = {row.check for row in rows}
    deciding = [check for check in checks if check.name in names]
    half = half_of(deciding)
    return {
        check.name: (str(check.kind), draw(check, half, width)) for check in deciding
    }


def half_of(checks: Iterable[Check]) -> float:
    """Half of the smallest scale on which the intervals of `checks` fit, within 0.02
    and 0.25."""
    reach = [_MIN_HALF]
    for check in checks:
        if check.threshold is not None:
            reach += [abs(value - check.threshold) for value in check_values(check)]
    return min(max(reach), _MAX_HALF)


def draw(check: Check, half: float, width: int = 21) -> str:
    """The interval of `check` in `width` characters, with `half` units to either side
    of its threshold.

    ``│`` is the threshold, ``●`` the estimate, ``├`` and ``┤`` the ends of the
    interval; ``◂`` and ``▸`` mark an interval that continues beyond the scale. Empty if
    there is nothing to draw.
    """
    threshold = check.threshold
    if threshold is None or check.estimate is None:
        return ""
    middle = width // 2
    last = width - 1

    def cell_of(value: float) -> int:
        return _cell((value - threshold) / half * middle, middle)

    dot = cell_of(check.estimate)
    start = dot
    end = dot
    if check.interval:
        start = cell_of(check.interval.low)
        end = cell_of(check.interval.high)
    marks = {start: "├", end: "┤", middle: "┼" if start < middle < end else "│"}
    if start < 0:
        marks[0] = "◂"
    if end > last:
        marks[last] = "▸"
    marks[min(max(dot, 0), last)] = "●"
    return "".join(
        marks.get(cell, "─" if start < cell < end else "·") for cell in range(width)
    )


def _cell(distance: float, middle: int) -> int:
    """The cell at `distance` from the threshold; the middle one only if it is exactly
    there."""
    cell = round(distance)
    if cell == 0 and distance:
        cell = 1 if distance > 0 else -1
    return middle + cell


def sparkline(trend: Trend) -> str:
    """``▅▅▆│▃▃``: a block for each of the newest runs; ``│`` marks a new judge, ``┊`` a
    new golden set."""
    low, high = span(trend)
    text = ""
    for point in trend.points[-_RUNS:]:
        if text:
            marks = [
                _JUDGE if change.startswith("judge") else _GOLDEN
                for change in point.changed
            ]
            text += "".join(dict.fromkeys(marks))
        if point.value is None:
            text += " "
            continue
        share = (point.value - low) / (high - low)
        text += _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)]
    return text
