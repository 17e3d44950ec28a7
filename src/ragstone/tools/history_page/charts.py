"""Computes the coordinates of line charts. The template draws them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

WIDTH = 300
HEIGHT = 96
"""The size of a chart, in units of SVG."""

_MARGIN = 8.0
"""The space around the line, in which dots and half of its width are."""


class Point(Struct, frozen=True):
    """One run or window in a chart."""

    time: datetime
    value: float | None
    """None if it was not measured."""
    status: str
    """The verdict, as a class of the stylesheet."""
    label: str
    """The text that a browser shows for the dot."""
    is_after_gap: bool = False
    """Whether the line has a gap before this point, because the value can't be compared
    with the one before."""


class Chart(Struct, frozen=True):
    """A chart of WIDTH × HEIGHT, with at least one value."""

    title: str
    points: Sequence[Point]
    show: Callable[[float], str]
    """Writes a value with its unit."""
    bottom: float
    """The value at the lower edge. No value is below it."""
    top: float
    """The value at the upper edge. No value is above it."""
    limit: float | None = None
    """The value at which a horizontal line is drawn."""

    @property
    def days(self) -> str:
        """The first and the last day, as a text."""
        first = self.points[0].time
        last = self.points[-1].time
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"

    @property
    def newest(self) -> str:
        """The newest value, as a text."""
        values = [point.value for point in self.points if point.value is not None]
        return self.show(values[-1])

    def x(self, index: int) -> str:
        """The horizontal coordinate of the point at `index`."""
        steps = max(1, len(self.points) - 1)
        step = (WIDTH - 2.0 * _MARGIN) / steps
        x = _MARGIN + index * step
        return f"{x:.1f}"

    def y(self, value: float) -> str:
        """The vertical coordinate of a value; SVG counts from the top."""
        share = (self.top - value) / (self.top - self.bottom)
        y = _MARGIN + share * (HEIGHT - 2.0 * _MARGIN)
        return f"{y:.1f}"

    @property
    def path(self) -> str:
        """The line through the values, with its gaps, as path data of SVG."""
        move = "M"
        line = "L"
        commands = []
        command = move
        for index, point in enumerate(self.points):
            if point.is_after_gap:
                command = move
            if point.value is not None:
                commands.append(f"{command}{self.x(index)} {self.y(point.value)}")
                command = line
        return "".join(commands)

    @property
    def dots(self) -> list[tuple[int, Point]]:
        """The points that are drawn as dots, with their index: the newest, and those
        that did not pass."""
        newest_index = len(self.points) - 1
        dots = []
        for index, point in enumerate(self.points):
            is_notable = index == newest_index or point.status not in ("pass", "none")
            if point.value is not None and is_notable:
                dots.append((index, point))
        return dots


def chart_of(
    title: str,
    points: Sequence[Point],
    show: Callable[[float], str],
    *,
    limit: float | None = None,
    min_span: float = 0.0,
) -> Chart | None:
    """Make a chart of `points`; None if no point has a value.

    `min_span` is the least difference from bottom to top, so that tiny changes don't
    look large; without it, it is a tenth of the highest value.
    """
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    if limit is not None:
        values.append(limit)
    low = min(values)
    high = max(values)
    span = min_span or 0.1 * max(high, 1e-9)  # more than 0 if all values are 0
    padding = max(0.0, span - (high - low)) / 2.0
    return Chart(
        title,
        points,
        show,
        bottom=max(0.0, low - padding),
        top=high + padding,
        limit=limit,
    )
