"""Finds the run of a version, and compares two runs question by question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragstone.errors import ConfigError, suggestion
from ragstone.history.file import History
from ragstone.history.level import ScoredRun, scores_of, why_incomparable
from ragstone.history.lines import RunLine
from ragstone.stats.arrays import Floats
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval

_MIN_PREFIX_CHARACTERS = 4
"""So many characters of a commit or of the id of a run are enough to name it."""


class PairedChanges(Struct, frozen=True):
    """How the scores of a metric changed from one run to another, on the questions that
    both scored."""

    values: Floats
    """The later score minus the earlier one, of each question."""
    groups: NDArray[np.int64] | None = None
    """The group of each question; None if there are no groups."""

    def interval(self) -> Estimate:
        """The mean change with its 95 % interval, by the statistics of the gate."""
        return mean_interval(self.values, bounds=(-1.0, 1.0), groups=self.groups)


def find_version(history: History, name: str) -> RunLine:
    """The newest run whose release or version of the system is `name`, or whose commit
    or id begins with it.

    Raises ConfigError if there is none.
    """
    known_names: set[str | None] = set()
    for run in reversed(history.runs):
        if name in (run.release, run.system):
            return run
        commit = run.commit or ""
        is_prefix = commit.startswith(name) or run.run.startswith(name)
        if is_prefix and len(name) >= _MIN_PREFIX_CHARACTERS:
            return run
        known_names |= {run.release, run.system, run.commit}
    hint = suggestion(name, filter(None, known_names))
    raise ConfigError(f"no run of the history is the version '{name}'.", hint=hint)


def mean_of(run: RunLine, metric: str) -> float | None:
    """The mean of `metric` in a run; None if it was not measured."""
    part = run.metrics.get(metric)
    return None if part is None else part.mean


def why_not_paired(before: RunLine, after: RunLine, metric: str) -> str | None:
    """Why the scores of `metric` in two runs can't be compared question by question, as
    a clause; None if they can."""
    for run in (before, after):
        if metric not in run.metrics:
            return "not measured"
        if run.samples is None or metric not in run.scores:
            return "the scores of single questions are no longer stored"
    return why_incomparable(before, after, metric)


def paired_changes(
    history: History, before: RunLine, after: RunLine, metric: str
) -> PairedChanges | None:
    """The changes of `metric` on the questions that both runs scored; None if there are
    none, or if the runs can't be compared."""
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
    scores_before, scores_after = scores_of(runs, samples.ids, metric)
    changes = scores_after - scores_before
    is_paired = np.isfinite(changes)
    if not is_paired.any():
        return None
    groups = None
    if samples.groups is not None:
        groups = np.array(samples.groups)[is_paired]
    return PairedChanges(changes[is_paired], groups)


def run_before(runs: Sequence[RunLine], index: int) -> RunLine | None:
    """The run that the run at `index` is compared with: the newest before it that has a
    verdict, or just the newest if none has; None for the first run."""
    earlier = runs[:index]
    for run in reversed(earlier):
        if run.verdict != "none":
            return run
    return earlier[-1] if earlier else None
