"""Trends of the metrics of a branch, the data for the plots in reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

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


def trends(runs: Sequence[RunLine], metrics: Sequence[str], *, most: int = MAX_POINTS) -> tuple[Trend, ...]:
    """The trend of each of `metrics` that at least two of `runs` have, over the newest `most` of them."""
    changes = [(), *(tuple(_changes(before, after)) for before, after in pairwise(runs))]
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


def _changes(before: RunLine, after: RunLine) -> list[str]:
    found = []
    if before.judge_key != after.judge_key:
        same = before.judge == after.judge
        found.append(f"judge: {after.judge}, other prompts or parameters" if same else f"judge: now {after.judge}")
    if before.golden != after.golden:
        found.append("golden set changed")
    return found
