"""The level of the main branch, by metric: which runs form it, and whether the branch is below it, since which run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import is_judged
from ragstone.history.codes import decode, sample_code, sample_codes
from ragstone.history.file import History, same_run
from ragstone.history.lines import BelowPart, RunLine, SamplesLine
from ragstone.stats.steps import BEFORE

Floats = NDArray[np.float64]

LEVEL_RUNS = 6
"""Number of healthy runs whose mean is the level. More would reduce its noise little, since the current run has its own
(`bench/level.py`), and would hold a gain back for longer."""

LOOKED_BACK = 24
"""Number of runs, besides those at the anchor, in which a loss is looked for."""


@dataclass(frozen=True, slots=True)
class Look:
    """A run of the main branch that counts, and the samples of its scores."""

    line: RunLine
    samples: SamplesLine


@dataclass(frozen=True, slots=True)
class MetricPast:
    """The runs that are comparable in one metric, the oldest first.

    `healthy` says of each whether it may form the level; `start` is the first one since the last accepted drop. `open`
    are the losses that are not over, `since` the index of the first run after the oldest of them.
    """

    metric: str
    looks: tuple[Look, ...]
    healthy: tuple[bool, ...]
    start: int
    open: tuple[BelowPart, ...] = ()
    since: int = 0

    @property
    def sound(self) -> list[int]:
        """The healthy runs that count."""
        return [index for index, healthy in enumerate(self.healthy) if healthy and index >= self.start]

    def level(self, *, main: bool) -> tuple[Look, ...]:
        """The runs that form the reference: for `main` its level, for a pull request the branch as it is now."""
        chosen = self.sound
        if self.open and not main:
            chosen = list(range(self.since, len(self.looks)))
        return tuple(self.looks[index] for index in chosen[-LEVEL_RUNS:])

    def place(self, part: BelowPart) -> int:
        """The index of the first run of a loss."""
        return _place(self.looks, part.since, part.commit)


def looks_before(history: History, line: RunLine) -> tuple[Look, ...]:
    """The runs before that of `line`, the oldest first: of each commit the first one, where runs of a job are known."""
    found: list[Look] = []
    seen: set[str] = set()
    for one in history.gated:
        samples = history.samples.get(one.samples or "")
        undecided = not one.eligible and one.verdict == "error"
        if samples is None or one.time > line.time or same_run(one, line) or undecided:
            continue
        if one.github_run is not None and one.commit is not None:
            if one.commit in seen:
                continue
            seen.add(one.commit)
        found.append(Look(one, samples))
    return tuple(found)


def is_seen(looks: Iterable[Look], line: RunLine) -> bool:
    """Whether the commit of `line` was run before."""
    return line.github_run is not None and any(
        one.line.github_run is not None and one.line.commit == line.commit is not None for one in looks
    )


def past_of(looks: Sequence[Look], line: RunLine, metric: str) -> MetricPast:
    """What `looks` say about `metric` of the run of `line`."""
    runs = tuple(one for one in looks if incomparable(one.line, line, metric) is None)
    parts: dict[str | None, BelowPart] = {}
    lost = np.zeros(len(runs), dtype=bool)
    for index, one in enumerate(runs):
        for part in one.line.below:
            if part.metric == metric:
                parts[part.slice] = part
                lost[_place(runs, part.since, part.commit) : index + 1] = True
                if part.until is not None:
                    lost[_place(runs, part.until, None, default=index) : index + 1] = False
    for part in parts.values():
        if part.until is None:
            lost[_place(runs, part.since, part.commit) :] = True
    # A run that failed for another metric's loss alone is healthy in this one.
    healthy = [not gone and (one.line.eligible or bool(one.line.below)) for one, gone in zip(runs, lost, strict=True)]
    # Without a healthy run before it, a loss can't be judged: main is compared with its baseline's run alone.
    open_ = tuple(
        part for part in parts.values() if part.until is None and any(healthy[: _place(runs, part.since, part.commit)])
    )
    since = min((_place(runs, part.since, part.commit) for part in open_), default=len(runs))
    start = 0
    seen = set[str]()
    for index, one in enumerate(runs):
        new = {entry.id for entry in one.line.accepted if entry.metric == metric} - seen
        if new and healthy[index]:
            start = index
            seen = seen | new
    return MetricPast(metric, runs, tuple(healthy), start, open_, since)


def newly_accepted(past: MetricPast, line: RunLine, slice_: str | None = None) -> float:
    """The total of the drops that are accepted in the run of `line`, and were in no healthy run before."""
    sound = (one for one, healthy in zip(past.looks, past.healthy, strict=True) if healthy)
    known = {entry.id for one in sound for entry in one.line.accepted}
    taken = {
        entry.id: entry.drop
        for entry in line.accepted
        if (entry.metric, entry.slice) == (past.metric, slice_) and entry.id not in known
    }
    return sum(taken.values())


def at_level(
    baseline: RunScores,
    current: RunScores,
    levels: Mapping[str, Sequence[Look]],
    names: Mapping[str, str],
) -> RunScores:
    """`baseline` with the scores of the level: by metric, the mean over the runs of `levels` that have the sample.

    `answers` has the score of each of these runs, the oldest first. Samples and metrics that the runs don't have keep
    the baseline's scores. `names` are the ids that samples had before they were renamed. Scores are stored in steps:
    one that is equal to that of either run is as exact as it.
    """
    metrics = dict(baseline.metrics)
    same = [name for name in current.samples if name in baseline.samples]
    for metric, looks in levels.items():
        then = metrics.get(metric)
        now = current.metrics.get(metric)
        if then is None or now is None or not looks:
            continue
        codes = [sample_code(name, current.samples[name].content_hash) for name in same]
        stored = scores_of(looks, codes, metric)
        renamed = [index for index, name in enumerate(same) if name in names]
        if renamed:
            before = [sample_code(names[same[index]], current.samples[same[index]].content_hash) for index in renamed]
            older = scores_of(looks, before, metric)
            stored[:, renamed] = np.where(np.isfinite(stored[:, renamed]), stored[:, renamed], older)
        values = dict(then.values)
        answers = dict(then.answers)
        for name, column in zip(same, stored.T.tolist(), strict=True):
            exact = {round(value * STEPS): value for value in (then.values.get(name), now.values.get(name)) if value}
            scores = [exact.get(round(score * STEPS), score) for score in column if score == score]
            if scores:
                values[name] = scores[0] if min(scores) == max(scores) else sum(scores) / len(scores)
                answers.pop(name, None)
                if len(scores) > 1:
                    answers[name] = tuple(scores)
        metrics[metric] = replace(
            then,
            values=values,
            answers=answers,
            failed={name: why for name, why in then.failed.items() if name not in values},
            not_applicable={name: why for name, why in then.not_applicable.items() if name not in values},
        )
    return replace(baseline, metrics=metrics)


def incomparable(then: RunLine, now: RunLine, metric: str) -> str | None:
    """Why the scores of `metric` in the two runs can't be compared; None if they can."""
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
    """The scores (runs, samples) of `metric` for the samples `codes`, NaN if missing."""
    found = np.full((len(looks), len(codes)), np.nan)
    places: dict[str, tuple[list[int], list[int]]] = {}
    for index, one in enumerate(looks):
        key = one.samples.key
        if key not in places:
            known = {code: place for place, code in enumerate(sample_codes(one.samples))}
            pairs = [(here, known[code]) for here, code in enumerate(codes) if code in known]
            places[key] = ([here for here, _ in pairs], [there for _, there in pairs])
        here, there = places[key]
        found[index, here] = decode(one.line.scores[metric])[there]
    return found


def needed_runs(history: History, days: int) -> frozenset[str]:
    """The runs whose scores are needed: those of the windows, the levels, and the anchors (of `days`, of a release)."""
    if not history.gated:
        return frozenset()
    newest = history.gated[-1]
    looks = looks_before(history, newest)
    found = {newest.run, *(look.line.run for look in looks[-LOOKED_BACK:])}
    released = max((index for index, look in enumerate(looks) if look.line.release is not None), default=len(looks))
    for metric in newest.metrics:
        past = past_of(looks, newest, metric)
        sound = [past.looks[index] for index in past.sound]
        recent = [look for look in sound if look.line.time >= newest.time - timedelta(days=days)]
        chosen = (*past.level(main=True), *past.level(main=False), *recent[:BEFORE], *looks[released:][:BEFORE])
        found |= {look.line.run for look in chosen}
    return frozenset(found)


def _place(runs: Sequence[Look], run: str, commit: str | None, default: int | None = None) -> int:
    """The index of `run`, or else of the first run of `commit`; `default` (the end) if there is neither."""
    exact = (i for i, one in enumerate(runs) if one.line.run == run and commit in (None, one.line.commit))
    alike = (i for i, one in enumerate(runs) if commit is not None and one.line.commit == commit)
    return next(exact, next(alike, len(runs) if default is None else default))
