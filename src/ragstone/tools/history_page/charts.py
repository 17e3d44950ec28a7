"""Line charts as coordinates; the template draws them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

WIDTH = 300
HEIGHT = 96
_PAD = 8.0


class Point(Struct, frozen=True):
    """One run or window. `word` is its verdict, `label` its tooltip.

    `starts`: the line has a gap before it, because its value doesn't compare with the
    one before.
    """

    time: datetime
    value: float | None
    word: str
    label: str
    starts: bool = False


class Chart(Struct, frozen=True):
    """A chart within WIDTH × HEIGHT of at least one value; all values are between
    `bottom` and `top`.

    `show` words a value, and `limit` is where a horizontal line is.
    """

    title: str
    points: Sequence[Point]
    show: Callable[[float], str]
    bottom: float
    top: float
    limit: float | None = None

    @property
    def days(self) -> str:
        """The first and the last day."""
        first = self.points[0].time
        last = self.points[-1].time
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"

    @property
    def newest(self) -> str:
        values = [point.value for point in self.points if point.value is not None]
        return self.show(values[-1])

    def x(self, index: int) -> str:
        steps = max(1, len(self.points) - 1)
        step = (WIDTH - 2.0 * _PAD) / steps
        x = _PAD + index * step
        return f"{x:.1f}"

    def y(self, value: float) -> str:
        share = (self.top - value) / (self.top - self.bottom)
        y = _PAD + share * (HEIGHT - 2.0 * _PAD)
        return f"{y:.1f}"

    @property
    def path(self) -> str:
        """The line through the values, with its gaps."""
        commands = []
        is_gap = True
        for index, point in enumerate(self.points):
            if point.starts:
                is_gap = True
            if point.value is not None:
                command = "M" if is_gap else "L"
                x = self.x(index)
                y = self.y(point.value)
                commands.append(f"{command}{x} {y}")
                is_gap = False
        return "".join(commands)

    @property
    def dots(self) -> list[tuple[int, Point]]:
        """The points that are drawn, by index: the newest, and those that did not
        pass."""
        newest = len(self.points) - 1
        dots = []
        for index, point in enumerate(self.points):
            is_notable = index == newest or point.word not in ("pass", "none")
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
    """The chart of `points`, on which at least `min_span` is shown; None without a
    value."""
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    if limit is not None:
        values.append(limit)
    low = min(values)
    high = max(values)
    span = min_span or 0.1 * max(high, 1e-9)
    room = max(0.0, span - (high - low)) / 2.0
    bottom = max(0.0, low - room)
    top = high + room
    return Chart(title, points, show, bottom, top, limit)
