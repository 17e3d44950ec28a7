"""Trends of the metrics of a branch, the data for the plots in reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.history.lines import RunLine

MAX_POINTS = 60


@dataclass(frozen=True, slots=True)
class Point:
    """One run. `value` is None if the run has none; `changed` describes changes since the previous run."""

    time: datetime
    value: float | None
    verdict: str
    commit: str | None
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """One metric over the newest runs, the oldest first."""

    metric: str
    points: tuple[Point, ...]

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points if point.value is not None]


MarkKind = Literal["judge", "golden", "metric", "part", "system", "release", "accepted"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something to know about the run at `place`. With a `metric` (and `slice`), it is about that one alone."""

    place: int
    kind: MarkKind
    text: str
    metric: str | None = None
    slice: str | None = None


def trends(runs: Sequence[RunLine], metrics: Sequence[str], *, most: int = MAX_POINTS) -> tuple[Trend, ...]:
    """The trend of each of `metrics` that at least two of `runs` have, over the newest `most` of them."""
    found_between = (_differences(1, before, after) for before, after in pairwise(runs))
    changes = [(), *(tuple(one.text for one in both if one.kind in ("judge", "golden")) for both in found_between)]
    shown = list(zip(runs, changes, strict=False))[-most:]
    found = (
        Trend(
            metric,
            tuple(
                Point(
                    run.time,
                    run.metrics[metric].mean if metric in run.metrics else None,
                    run.verdict,
                    run.commit,
                    changed if index else (),
                )
                for index, (run, changed) in enumerate(shown)
            ),
        )
        for metric in metrics
    )
    return tuple(trend for trend in found if len(trend.values) >= 2)


def marks(runs: Sequence[RunLine]) -> Iterator[Mark]:
    """What sets each of `runs` apart from the run before it, and the releases; the oldest run first.

    An accepted drop is marked at the first run in which it was in force.
    """
    for place, run in enumerate(runs):
        if place:
            yield from _differences(place, runs[place - 1], run)
        if run.release is not None:
            yield Mark(place, "release", f"release {run.release}")
        held = {one.id for one in runs[place - 1].accepted} if place else set()
        for one in run.accepted:
            if one.id not in held:
                where = "" if one.slice is None else f" on '{one.slice}'"
                if one.metric == GOLDEN_SET:
                    text = f"accepted: an edit of {one.drop:.1%} of the {GOLDEN_SET} ({one.id})"
                    yield Mark(place, "accepted", text)
                    continue
                text = f"accepted: {one.metric}{where} may drop by {one.drop:g} ({one.id})"
                yield Mark(place, "accepted", text, one.metric, one.slice)


def _differences(place: int, before: RunLine, after: RunLine) -> Iterator[Mark]:
    if before.judge_key != after.judge_key:
        same = before.judge == after.judge
        text = f"judge: {after.judge}, other prompts or parameters" if same else f"judge: now {after.judge}"
        yield Mark(place, "judge", text)
    if before.golden != after.golden:
        yield Mark(place, "golden", "golden set changed")
    if before.part != after.part:
        yield Mark(place, "part", f"evaluated: {'the whole system' if after.part is None else f'{after.part} alone'}")
    if before.system != after.system:
        yield Mark(place, "system", "system: no version" if after.system is None else f"system: {after.system}")
    for metric, version in after.versions.items():
        if metric in before.versions and before.versions[metric] != version:
            yield Mark(place, "metric", f"{metric}: version {version}, was {before.versions[metric]}", metric)
