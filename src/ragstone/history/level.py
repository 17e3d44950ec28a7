"""The level of the main branch, by metric: which runs form it, and whether the branch
is below it, since which run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import is_judged
from ragstone.history.codes import decode, sample_code
from ragstone.history.file import History
from ragstone.history.lines import BelowPart, RunLine, SamplesLine

Floats = NDArray[np.float64]

LEVEL_RUNS = 6
"""Number of healthy runs whose mean is the level. More would reduce its noise little,
since the current run has its own (`bench/level.py`), and would hold a gain back for
longer."""


class Look(Struct, frozen=True):
    """A run of the main branch that counts, and the samples of its scores."""

    line: RunLine
    samples: SamplesLine


class MetricPast(Struct, frozen=True):
    """The runs that are comparable in one metric."""

    looks: tuple[Look, ...]
    """The oldest first."""
    healthy: tuple[int, ...]
    """The indexes of those that may form the level."""
    start: int
    """The first one since the last accepted drop."""
    open: tuple[BelowPart, ...] = ()
    """The losses that are not over."""

    @property
    def sound(self) -> list[int]:
        """The healthy runs that count."""
        return [index for index in self.healthy if index >= self.start]

    def level(self, *, main: bool) -> tuple[Look, ...]:
        """The runs that form the reference: for `main` its level, for a pull request
        the branch as it is now."""
        indexes = self.sound
        if self.open and not main:
            first = min(map(self.place, self.open))
            indexes = list(range(first, len(self.looks)))
        return tuple(self.looks[index] for index in indexes[-LEVEL_RUNS:])

    def place(self, part: BelowPart) -> int:
        """The index of the first run of a loss."""
        return _place(self.looks, part.since)


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
    lasting: dict[str | None, BelowPart] = {}
    below: set[int] = set()
    for index, look in enumerate(runs):
        for part in look.line.below:
            if part.metric != metric:
                continue
            lasting[part.slice] = part
            below.update(range(_place(runs, part.since), index + 1))
            if part.until is not None:
                del lasting[part.slice]
                below -= set(range(_place(runs, part.until), index + 1))
    starts = {part: _place(runs, part.since) for part in lasting.values()}
    below.update(range(min(starts.values(), default=len(runs)), len(runs)))
    # A run that failed for another metric's loss alone is healthy in this one.
    healthy = tuple(
        index
        for index, look in enumerate(runs)
        if index not in below and (look.line.eligible or look.line.below)
    )
    # Without a healthy run before it, a loss can't be judged: main is compared with its
    # baseline's run alone.
    first_healthy = min(healthy, default=len(runs))
    open_losses = tuple(part for part in starts if starts[part] > first_healthy)
    start = 0
    accepted_before: set[str] = set()
    for index in healthy:
        accepted = {
            entry.id for entry in runs[index].line.accepted if entry.metric == metric
        }
        if not accepted <= accepted_before:
            start = index
            accepted_before |= accepted
    return MetricPast(runs, healthy, start, open_losses)


def at_level(
    baseline: RunScores, current: RunScores, levels: Mapping[str, Sequence[Look]]
) -> RunScores:
    """`baseline` with the scores of the level: by metric, the mean over the runs of
    `levels` that have the sample.

    `answers` has the score of each of these runs, the oldest first. Samples and metrics
    that the runs don't have keep the baseline's scores. Scores are stored in steps: one
    that is equal to that of the current run is as exact as it.
    """
    metrics = dict(baseline.metrics)
    common = [name for name in current.samples if name in baseline.samples]
    codes = [sample_code(name, current.samples[name].content_hash) for name in common]
    for metric in levels.keys() & metrics.keys() & current.metrics.keys():
        then = metrics[metric]
        values = dict(then.values)
        answers = dict(then.answers)
        failed = dict(then.failed)
        not_applicable = dict(then.not_applicable)
        table = scores_of(levels[metric], codes, metric).T
        for sample_id, row in zip(common, table, strict=True):
            scores = row[np.isfinite(row)]
            if not len(scores):
                continue
            exact = current.metrics[metric].values.get(sample_id, -1.0)
            is_equal = np.rint(scores * STEPS) == round(exact * STEPS)
            scores = np.where(is_equal, exact, scores)
            is_steady = scores.min() == scores.max()
            values[sample_id] = float(scores[0] if is_steady else scores.mean())
            answers[sample_id] = tuple(scores.tolist())
            failed.pop(sample_id, None)
            not_applicable.pop(sample_id, None)
        metrics[metric] = replace(
            then,
            values=values,
            answers=answers,
            failed=failed,
            not_applicable=not_applicable,
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
        decoded = decode(look.line.scores[metric]).tolist()
        by_code = dict(zip(look.samples.ids, decoded, strict=True))
        row[:] = [by_code.get(code, np.nan) for code in codes]
    return scores


def _place(runs: Sequence[Look], run: str) -> int:
    """The index of `run`; the end if it is not among them."""
    for index, look in enumerate(runs):
        if look.line.run == run:
            return index
    return len(runs)
