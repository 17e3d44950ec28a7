"""The level of the main branch, by metric: which runs form it, and whether the branch
is below it, since which run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import is_judged
from ragstone.history.codes import decode, sample_code
from ragstone.history.file import NEWEST, History
from ragstone.history.lines import BelowPart, RunLine, SamplesLine

Floats = NDArray[np.float64]

LEVEL_RUNS = 6
"""Number of healthy runs whose mean is the level. More would reduce its noise little,
since the current run has its own (`bench/level.py`), and would hold a gain back for
longer."""

LOOKED_BACK = NEWEST
"""Number of runs, besides those at the anchor, in which a loss is looked for."""


@dataclass(frozen=True, slots=True)
class Look:
    """A run of the main branch that counts, and the samples of its scores."""

    line: RunLine
    samples: SamplesLine


@dataclass(frozen=True, slots=True)
class MetricPast:
    """The runs that are comparable in one metric."""

    looks: tuple[Look, ...]
    """The oldest first."""
    healthy: tuple[int, ...]
    """The indexes of those that may form the level."""
    start: int
    """The first one since the last accepted drop."""
    open: tuple[BelowPart, ...] = ()
    """The losses that are not over."""
    since: int = 0
    """The index of the first run after the oldest of them."""

    @property
    def sound(self) -> list[int]:
        """The healthy runs that count."""
        return [index for index in self.healthy if index >= self.start]

    def level(self, *, main: bool) -> tuple[Look, ...]:
        """The runs that form the reference: for `main` its level, for a pull request
        the branch as it is now."""
        indexes = self.sound
        if self.open and not main:
            indexes = list(range(self.since, len(self.looks)))
        return tuple(self.looks[index] for index in indexes[-LEVEL_RUNS:])

    def place(self, part: BelowPart) -> int:
        """The index of the first run of a loss."""
        return _place(self.looks, part.since, part.commit)


def looks_before(history: History, line: RunLine) -> tuple[Look, ...]:
    """The runs before that of `line`, the oldest first: of each commit the first one,
    where runs of a job are known."""
    looks: list[Look] = []
    for run in history.gated:
        samples = history.samples.get(run.samples or "")
        is_undecided = not run.eligible and run.verdict == "error"
        is_later = run.time > line.time or run.attempt == line.attempt
        if samples and not is_undecided and not is_later and not was_run(looks, run):
            looks.append(Look(run, samples))
    return tuple(looks)


def was_run(looks: Iterable[Look], line: RunLine) -> bool:
    """Whether the commit of `line` was run before."""
    if line.github_run is None or line.commit is None:
        return False
    return any(
        look.line.github_run is not None and look.line.commit == line.commit
        for look in looks
    )


def past_of(looks: Sequence[Look], line: RunLine, metric: str) -> MetricPast:
    """What `looks` say about `metric` of the run of `line`."""
    runs = tuple(
        look for look in looks if incomparable(look.line, line, metric) is None
    )
    parts: dict[str | None, BelowPart] = {}
    is_below = np.zeros(len(runs), dtype=np.bool_)
    for index, look in enumerate(runs):
        for part in look.line.below:
            if part.metric == metric:
                parts[part.slice] = part
                is_below[_place(runs, part.since, part.commit) : index + 1] = True
                if part.until is not None:
                    recovered = min(index, _place(runs, part.until))
                    is_below[recovered : index + 1] = False
    lasting = [part for part in parts.values() if part.until is None]
    starts = [_place(runs, part.since, part.commit) for part in lasting]
    is_below[min(starts, default=len(runs)) :] = True
    # A run that failed for another metric's loss alone is healthy in this one.
    healthy = tuple(
        index
        for index, look in enumerate(runs)
        if not is_below[index] and (look.line.eligible or look.line.below)
    )
    # Without a healthy run before it, a loss can't be judged: main is compared with its
    # baseline's run alone.
    first_healthy = min(healthy, default=len(runs))
    open_losses = tuple(
        part
        for part, place in zip(lasting, starts, strict=True)
        if place > first_healthy
    )
    since = min((place for place in starts if place > first_healthy), default=len(runs))
    start = 0
    accepted_before: set[str] = set()
    for index in healthy:
        accepted = {
            entry.id for entry in runs[index].line.accepted if entry.metric == metric
        }
        if not accepted <= accepted_before:
            start = index
            accepted_before |= accepted
    return MetricPast(runs, healthy, start, open_losses, since)


def at_level(
    baseline: RunScores, current: RunScores, levels: Mapping[str, Sequence[Look]]
) -> RunScores:
    """`baseline` with the scores of the level: by metric, the mean over the runs of
    `levels` that have the sample.

    `answers` has the score of each of these runs, the oldest first. Samples and metrics
    that the runs don't have keep the baseline's scores. Scores are stored in steps: one
    that is equal to that of either run is as exact as it.
    """
    metrics = dict(baseline.metrics)
    common = [name for name in current.samples if name in baseline.samples]
    codes = [sample_code(name, current.samples[name].content_hash) for name in common]
    for metric in levels.keys() & metrics.keys() & current.metrics.keys():
        then = metrics[metric]
        values = dict(then.values)
        answers = dict(then.answers)
        table = scores_of(levels[metric], codes, metric).T
        for sample_id, row in zip(common, table, strict=True):
            scores = row[np.isfinite(row)]
            if not len(scores):
                continue
            for run in (then, current.metrics[metric]):
                exact = run.values.get(sample_id, -1.0)
                is_equal = np.rint(scores * STEPS) == round(exact * STEPS)
                scores = np.where(is_equal, exact, scores)
            is_steady = scores.min() == scores.max()
            values[sample_id] = float(scores[0] if is_steady else scores.mean())
            answers.pop(sample_id, None)
            if len(scores) > 1:
                answers[sample_id] = tuple(scores.tolist())
        metrics[metric] = replace(
            then,
            values=values,
            answers=answers,
            failed={
                sample_id: failure
                for sample_id, failure in then.failed.items()
                if sample_id not in values
            },
            not_applicable={
                sample_id: reason
                for sample_id, reason in then.not_applicable.items()
                if sample_id not in values
            },
        )
    return replace(baseline, metrics=metrics)


def incomparable(then: RunLine, now: RunLine, metric: str) -> str | None:
    """Why the scores of `metric` in the two runs can't be compared; None if they
    can."""
    if then.part != now.part:
        return "earlier runs evaluated another half of the system"
    if metric not in then.scores:
        return f"earlier runs have no scores for {metric}"
    if then.versions.get(metric) != now.versions.get(metric):
        return f"{metric} is version {now.versions.get(metric)} now, and was {then.versions.get(metric)}"
    if then.judge_key != now.judge_key and is_judged(metric, now.versions.get(metric)):
        if then.judge == now.judge:
            return f"the prompts or parameters of the judge ({now.judge}) changed"
        return f"the judge changed from {then.judge} to {now.judge}"
    return None


def scores_of(looks: Sequence[Look], codes: Sequence[str], metric: str) -> Floats:
    """The scores (runs, samples) of `metric` for the samples `codes`, NaN if
    missing."""
    scores = np.full((len(looks), len(codes)), np.nan)
    for row, look in zip(scores, looks, strict=True):
        kept = decode(look.line.scores[metric]).tolist()
        by_code = dict(zip(look.samples.ids, kept, strict=True))
        row[:] = [by_code.get(code, np.nan) for code in codes]
    return scores


def _place(runs: Sequence[Look], run: str, commit: str | None = None) -> int:
    """The index of `run`, or else of the first run of `commit`; the end if there is
    neither."""
    lines = [look.line for look in runs]
    same_commit = [
        index
        for index, line in enumerate(lines)
        if commit is None or line.commit == commit
    ]
    same_run = [index for index in same_commit if lines[index].run == run]
    if commit is not None:
        same_run += same_commit
    return next(iter(same_run), len(runs))
