"""Line charts as coordinates; the template draws them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH = 300.0
HEIGHT = 96.0

_PAD = 8.0


@dataclass(frozen=True, slots=True)
class Point:
    """One run or window. `word` is the class of its dot, `label` its tooltip."""

    value: float | None
    low: float | None
    high: float | None
    word: str
    label: str
    starts: bool = False
    """Whether the line has a gap before it: its value doesn't compare with the one before."""


@dataclass(frozen=True, slots=True)
class Span:
    """The points from `start` to `end`, by index, that have something in common, such as a loss."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """A horizontal line at `value` from the point `start` on."""

    value: float
    kind: str
    label: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class DrawnDot:
    x: float
    y: float
    word: str
    label: str


@dataclass(frozen=True, slots=True)
class DrawnLine:
    x: float
    y: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart within WIDTH × HEIGHT, and the texts around it."""

    title: str
    newest: str
    bottom: str
    top: str
    first: str
    last: str
    path: str
    bands: tuple[str, ...]
    dots: tuple[DrawnDot, ...]
    lines: tuple[DrawnLine, ...]
    spans: tuple[DrawnSpan, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """From the index of a point and a value to coordinates."""

    count: int
    low: float
    high: float

    @classmethod
    def for_values(cls, count: int, values: Sequence[float], min_span: float) -> Scale:
        """The scale on which all `values` fit and at least `min_span` is shown."""
        low, high = min(values), max(values)
        room = max(0.0, min_span - (high - low)) / 2.0
        return cls(count, low - room if low < 0.0 else max(0.0, low - room), high + room)

    def x(self, index: int) -> float:
        step = (WIDTH - 2.0 * _PAD) / max(1, self.count - 1)
        return round(_PAD + index * step, 2)

    def y(self, value: float) -> float:
        share = (self.high - value) / (self.high - self.low)
        return round(_PAD + share * (HEIGHT - 2.0 * _PAD), 2)

    def path(self, points: Sequence[Point]) -> str:
        """The line through the values, with its gaps."""
        commands = []
        is_gap = True
        for index, point in enumerate(points):
            is_gap = is_gap or point.starts
            if point.value is None:
                continue
            commands.append(f"{'M' if is_gap else 'L'}{self.x(index):g} {self.y(point.value):g}")
            is_gap = False
        return " ".join(commands)

    def bands(self, points: Sequence[Point]) -> tuple[str, ...]:
        """The corners of the area between the limits, one area for each piece of the line."""
        pieces: list[list[tuple[int, float, float]]] = [[]]
        for index, point in enumerate(points):
            if point.starts:
                pieces.append([])
            if point.low is not None and point.high is not None:
                pieces[-1].append((index, point.low, point.high))
        return tuple(self._corners(piece) for piece in pieces if len(piece) > 1)

    def _corners(self, piece: Sequence[tuple[int, float, float]]) -> str:
        upper = [f"{self.x(index):g},{self.y(high):g}" for index, _, high in piece]
        lower = [f"{self.x(index):g},{self.y(low):g}" for index, low, _ in reversed(piece)]
        return " ".join([*upper, *lower])


def draw_chart(
    title: str,
    points: Sequence[Point],
    *,
    show: Callable[[float], str],
    names: tuple[str, str],
    lines: Sequence[Line] = (),
    spans: Sequence[Span] = (),
    min_span: float = 0.0,
) -> Chart | None:
    """The chart of `points`; None without a value. `show` words a value, and `names` are those of the outer points."""
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    limits = [limit for point in points for limit in (point.low, point.high) if limit is not None]
    shown = [*values, *limits, *(line.value for line in lines)]
    scale = Scale.for_values(len(points), shown, min_span or 0.1 * max(*shown, 1e-9))
    half_step = (scale.x(1) - scale.x(0)) / 2.0 if len(points) > 1 else _PAD
    drawn_spans = []
    for span in spans:
        start, end = scale.x(span.start) - half_step, scale.x(span.end) + half_step
        drawn_spans.append(DrawnSpan(round(start, 2), round(end - start, 2), span.label))
    return Chart(
        title=title,
        newest=show(values[-1]),
        bottom=show(scale.low),
        top=show(scale.high),
        first=names[0],
        last=names[1],
        path=scale.path(points),
        bands=scale.bands(points),
        dots=tuple(
            DrawnDot(scale.x(index), scale.y(point.value), point.word, point.label)
            for index, point in enumerate(points)
            if point.value is not None
        ),
        lines=tuple(DrawnLine(scale.x(line.start), scale.y(line.value), line.kind, line.label) for line in lines),
        spans=tuple(drawn_spans),
    )
