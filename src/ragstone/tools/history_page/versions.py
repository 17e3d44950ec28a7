"""What changed between two runs, question by question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragstone.history.codes import decode, sample_codes
from ragstone.history.file import History
from ragstone.history.level import incomparable
from ragstone.history.lines import RunLine


def mean_changes(
    history: History, before: RunLine, after: RunLine, metrics: Sequence[str]
) -> dict[str, float]:
    """The mean change of each of `metrics` on the questions that both runs scored,
    without those whose scores don't compare."""
    comparable = [
        metric
        for metric in metrics
        if metric in before.scores
        and metric in after.scores
        and incomparable(before, after, metric) is None
    ]
    changes: dict[str, float] = {}
    if not comparable or before.samples is None or after.samples is None:
        return changes
    codes_before = sample_codes(history.samples[before.samples])
    codes_after = sample_codes(history.samples[after.samples])
    for metric in comparable:
        scores = zip(codes_before, decode(before.scores[metric]), strict=True)
        earlier = dict(scores)
        then = np.array([earlier.get(code, np.nan) for code in codes_after])
        change = decode(after.scores[metric]) - then
        if np.isfinite(change).any():
            changes[metric] = float(np.nanmean(change))
    return changes


def run_before(runs: Sequence[RunLine], place: int) -> RunLine | None:
    """The run that the run at `place` is compared with: the newest one before it that
    has a verdict, else any."""
    earlier = runs[:place]
    for run in reversed(earlier):
        if run.verdict != "none":
            return run
    return earlier[-1] if earlier else None
