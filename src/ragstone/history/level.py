"""The level of the main branch, by metric: which runs form it, and whether the branch
is below it, since which run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, MetricScores, RunScores
from ragstone.gate.comparability import is_judged
from ragstone.history.codes import decode, sample_code, sample_codes
from ragstone.history.file import NEWEST_WITH_SCORES, History, same_run
from ragstone.history.lines import BelowPart, RunLine, SamplesLine

Floats = NDArray[np.float64]

LEVEL_RUNS = 6
"""Number of healthy runs whose mean is the level. More would reduce its noise little,
since the current run has its own (`bench/level.py`), and would hold a gain back for
longer."""

LOOKED_BACK = NEWEST_WITH_SCORES
"""Number of runs, besides those at the anchor, in which a loss is looked for."""


@dataclass(frozen=True, slots=True)
class Look:
    """A run of the main branch that counts, and the samples of its scores."""

    line: RunLine
    samples: SamplesLine


@dataclass(frozen=True, slots=True)
class MetricPast:
    """The runs that are comparable in one metric."""

    metric: str
    looks: tuple[Look, ...]
    """The oldest first."""
    healthy: tuple[bool, ...]
    """Whether each of them may form the level."""
    start: int
    """The first one since the last accepted drop."""
    open: tuple[BelowPart, ...] = ()
    """The losses that are not over."""
    since: int = 0
    """The index of the first run after the oldest of them."""

    @property
    def sound(self) -> list[int]:
        """The healthy runs that count."""
        return [
            index
            for index, healthy in enumerate(self.healthy)
            if healthy and index >= self.start
        ]

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
    commits: set[str] = set()
    for run in history.gated:
        samples = history.samples.get(run.samples or "")
        is_undecided = not run.eligible and run.verdict == "error"
        if (
            samples is None
            or run.time > line.time
            or same_run(run, line)
            or is_undecided
        ):
            continue
        if run.github_run is not None and run.commit is not None:
            if run.commit in commits:
                continue
            commits.add(run.commit)
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
    parts, is_below = _losses(runs, metric)
    healthy = []
    for look, below in zip(runs, is_below, strict=True):
        # A run that failed for another metric's loss alone is healthy in this one.
        healthy.append(not below and (look.line.eligible or bool(look.line.below)))
    open_losses: list[BelowPart] = []
    since = len(runs)
    for part in parts:
        place = _place(runs, part.since, part.commit)
        # Without a healthy run before it, a loss can't be judged: main is compared with
        # its baseline's run alone.
        if part.until is None and any(healthy[:place]):
            open_losses.append(part)
            since = min(since, place)
    start = 0
    accepted_before: set[str] = set()
    for index, look in enumerate(runs):
        accepted = {entry.id for entry in look.line.accepted if entry.metric == metric}
        if healthy[index] and not accepted <= accepted_before:
            start = index
            accepted_before |= accepted
    return MetricPast(metric, runs, tuple(healthy), start, tuple(open_losses), since)


def _losses(
    runs: Sequence[Look], metric: str
) -> tuple[list[BelowPart], NDArray[np.bool_]]:
    """What was said last of each loss of a metric, and a mask over the runs that are
    below their level."""
    parts: dict[str | None, BelowPart] = {}
    is_below = np.zeros(len(runs), dtype=bool)
    for index, look in enumerate(runs):
        for part in look.line.below:
            if part.metric != metric:
                continue
            parts[part.slice] = part
            is_below[_place(runs, part.since, part.commit) : index + 1] = True
            if part.until is not None:
                is_below[_place(runs, part.until, None, default=index) : index + 1] = (
                    False
                )
    for part in parts.values():
        if part.until is None:
            is_below[_place(runs, part.since, part.commit) :] = True
    return list(parts.values()), is_below


def newly_accepted(past: MetricPast, line: RunLine, slice_: str | None = None) -> float:
    """The total of the drops that are accepted in the run of `line`, and were in no
    healthy run before."""
    accepted_before: set[str] = set()
    for look, healthy in zip(past.looks, past.healthy, strict=True):
        if healthy:
            accepted_before.update(entry.id for entry in look.line.accepted)
    drops: dict[str, float] = {}
    for entry in line.accepted:
        is_of_metric = entry.metric == past.metric and entry.slice == slice_
        if is_of_metric and entry.id not in accepted_before:
            drops[entry.id] = entry.drop
    return sum(drops.values())


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
    for metric, looks in levels.items():
        if metric in metrics and metric in current.metrics and looks:
            scores = scores_of(looks, codes, metric)
            stored = {}
            for sample_id, column in zip(common, scores.T, strict=True):
                stored[sample_id] = column[np.isfinite(column)].tolist()
            metrics[metric] = _at_level(
                metrics[metric], current.metrics[metric], stored
            )
    return replace(baseline, metrics=metrics)


def _at_level(
    baseline: MetricScores, current: MetricScores, stored: Mapping[str, Sequence[float]]
) -> MetricScores:
    """The scores of one metric in the baseline, with the `stored` ones in place of
    those of its run."""
    values = dict(baseline.values)
    answers = dict(baseline.answers)
    for sample_id, rounded in stored.items():
        if not rounded:
            continue
        exact: dict[int, float] = {}
        for value in (baseline.values.get(sample_id), current.values.get(sample_id)):
            if value:
                exact[round(value * STEPS)] = value
        scores = [exact.get(round(score * STEPS), score) for score in rounded]
        values[sample_id] = (
            scores[0] if min(scores) == max(scores) else sum(scores) / len(scores)
        )
        answers.pop(sample_id, None)
        if len(scores) > 1:
            answers[sample_id] = tuple(scores)
    return replace(
        baseline,
        values=values,
        answers=answers,
        failed={
            sample_id: failure
            for sample_id, failure in baseline.failed.items()
            if sample_id not in values
        },
        not_applicable={
            sample_id: reason
            for sample_id, reason in baseline.not_applicable.items()
            if sample_id not in values
        },
    )


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
    places_by_key: dict[str, dict[int, int]] = {}
    for index, look in enumerate(looks):
        key = look.samples.key
        if key not in places_by_key:
            place_of = {
                code: place for place, code in enumerate(sample_codes(look.samples))
            }
            places_by_key[key] = {
                column: place_of[code]
                for column, code in enumerate(codes)
                if code in place_of
            }
        places = places_by_key[key]
        scores[index, list(places)] = decode(look.line.scores[metric])[
            list(places.values())
        ]
    return scores


def _place(
    runs: Sequence[Look], run: str, commit: str | None, default: int | None = None
) -> int:
    """The index of `run`, or else of the first run of `commit`; `default` (the end) if
    there is neither."""
    for index, look in enumerate(runs):
        if look.line.run == run and (commit is None or look.line.commit == commit):
            return index
    if commit is not None:
        for index, look in enumerate(runs):
            if look.line.commit == commit:
                return index
    if default is None:
        return len(runs)
    return default
