"""Versions side by side: which run a name means, and what changed between two runs,
question by question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragstone.errors import ConfigError, suggestion
from ragstone.history.file import History
from ragstone.history.level import ScoredRun, incomparable, scores_of
from ragstone.history.lines import RunLine
from ragstone.stats.arrays import Floats
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval

_MIN_COMMIT = 4
"""The fewest characters of a commit or run that name it."""


class PairedChanges(Struct, frozen=True):
    """For each question that two runs share, the later score of a metric minus the
    earlier one."""

    values: Floats
    groups: NDArray[np.int64] | None = None

    def interval(self) -> Estimate:
        """The mean change with its 95 % interval, by the statistics of the gate."""
        return mean_interval(self.values, bounds=(-1.0, 1.0), groups=self.groups)


def find_version(history: History, name: str) -> RunLine:
    """The newest run that `name` means: a release, a version of the system, a commit or
    a run.

    Raises ConfigError for a name that means no run.
    """
    names: set[str | None] = set()
    for run in reversed(history.runs):
        if name in (run.release, run.system):
            return run
        commit = run.commit or ""
        starts_so = commit.startswith(name) or run.run.startswith(name)
        if starts_so and len(name) >= _MIN_COMMIT:
            return run
        names |= {run.release, run.system, run.commit}
    hint = suggestion(name, filter(None, names))
    raise ConfigError(f"no run of the history is the version '{name}'.", hint=hint)


def mean_of(run: RunLine, metric: str) -> float | None:
    """The mean of `metric` in a run; None if it was not measured."""
    part = run.metrics.get(metric)
    return None if part is None else part.mean


def why_not_paired(before: RunLine, after: RunLine, metric: str) -> str | None:
    """Why the scores of `metric` in two runs can't be compared question by question;
    None if they can."""
    for run in (before, after):
        if metric not in run.metrics:
            return "not measured"
        if run.samples is None or metric not in run.scores:
            return "the scores of its questions are not kept any more"
    return incomparable(before, after, metric)


def paired_changes(
    history: History, before: RunLine, after: RunLine, metric: str
) -> PairedChanges | None:
    """The changes of `metric` on the questions that both runs scored; None without any,
    or if they don't compare."""
    if (
        before.samples is None
        or after.samples is None
        or why_not_paired(before, after, metric) is not None
    ):
        return None
    samples = history.samples[after.samples]
    runs = [
        ScoredRun(before, history.samples[before.samples]),
        ScoredRun(after, samples),
    ]
    earlier, later = scores_of(runs, samples.ids, metric)
    changes = later - earlier
    scored = np.isfinite(changes)
    if not scored.any():
        return None
    labels = None
    if samples.groups is not None:
        groups = np.array(samples.groups)
        labels = groups[scored]
    return PairedChanges(changes[scored], labels)


def run_before(runs: Sequence[RunLine], place: int) -> RunLine | None:
    """The run that the run at `place` is compared with: the newest one before it that
    has a verdict, else any."""
    earlier = runs[:place]
    for run in reversed(earlier):
        if run.verdict != "none":
            return run
    return earlier[-1] if earlier else None
