"""Is the main branch below its level? Compares a run with the runs before it, as checks
of the gate.

A loss is written into the line of its run. The newest run alone opens a suspicion,
which is inconclusive; a second run turns it red. It lasts until recovery is shown or it
is accepted, whatever one later run shows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, compress

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import figure
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import CHANGES, Action, Check, Status
from ragstone.history.codes import Compact, group_codes, sample_code, sample_codes
from ragstone.history.column import Cause, Column, DriftRule, mean_of, since
from ragstone.history.file import History
from ragstone.history.level import (
    LOOKED_BACK,
    Look,
    MetricPast,
    looks_before,
    newly_accepted,
    past_of,
    scores_of,
    was_run,
)
from ragstone.history.lines import BelowPart, RunLine
from ragstone.metrics.registry import is_relative
from ragstone.stats.steps import BEFORE, LEVEL, Series, recovered_since

_COMMON = 0.5
"""A run is comparable if it has at least this share of the samples of the newest
run."""

_MIN_LOSS = 0.01
"""The smallest loss that a recovery is told from; at least half of `max_drift`, so that
a lasting one can be."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The drift of a run."""

    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the top of the report."""
    notes: tuple[str, ...] = ()
    """Sentences for its bottom."""
    below: tuple[BelowPart, ...] = ()
    """The losses for the line of the run."""


def measure_drift(
    history: History,
    line: RunLine,
    scores: Compact,
    run: RunScores,
    policy: Policy,
    *,
    main: bool = True,
    decided: Sequence[Check] = (),
) -> Drift:
    """Compare the run of `line`, with per-sample `scores`, with the runs in `history`.

    `run` decides which rules of `policy` apply. `main` False: the run belongs to a pull
    request. Then the report says what the main branch has lost, and only a loss that
    begins with this run blocks. `decided` are the checks of a run that was decided: a
    drop that failed, or is not settled, is a loss from then on.
    """
    rules = _rules(policy, run)
    if not rules:
        return Drift()
    watch = _Watch(history, line, scores, run, policy, rules)
    new = watch.search(main=main)
    if not main:
        open_losses = chain.from_iterable(past.open for past in watch.pasts.values())
        notices = [_notice(part) for part in open_losses]
        return replace(new, warnings=(*notices, *new.warnings), below=())
    followed = watch.follow()
    below = {
        (part.metric, part.slice): part
        for part in (*(part for _, part in followed), *new.below)
    }
    for check in decided:
        part = watch.decided_loss(check, below.get((check.metric or "", check.slice)))
        if part is not None:
            below[part.metric, part.slice] = part
    lasting = [check for check, _ in followed if not check.passed]
    recovered = [check.reason for check, _ in followed if check.passed]
    added = [check for check in new.checks if not lasting or not check.passed]
    return Drift(
        (*lasting, *added),
        new.warnings,
        (*recovered, *new.notes),
        tuple(below.values()),
    )


def find_cause(
    history: History, metric: str, *, lower_is_better: bool
) -> tuple[MetricPast, Cause | None]:
    """What the history says about `metric` as of its newest run, and the merge that
    brought a loss, if there was one.

    The cause is None with fewer than two comparable runs.
    """
    newest = next(
        (line for line in reversed(history.gated) if metric in line.scores), None
    )
    if newest is None:
        return MetricPast(metric, (), (), 0), None
    looks = looks_before(history, newest)
    if not was_run(looks, newest):
        looks = (*looks, Look(newest, history.samples[newest.samples or ""]))
    past = past_of(looks, newest, metric)
    runs = len(past.looks)
    if runs < 2:
        return past, None
    first_of_loss = min(past.since, runs - 1)
    start = max(0, first_of_loss - LOOKED_BACK)
    looks = past.looks[start:]
    codes = sample_codes(past.looks[-1].samples)
    series = _series(looks, metric, codes, None, lower=lower_is_better)
    return past, Column((), looks, tuple(range(start, runs)), series).cause()


class _Watch:
    """A run of the branch, or of a pull request, and the runs before it."""

    def __init__(
        self,
        history: History,
        line: RunLine,
        scores: Compact,
        run: RunScores,
        policy: Policy,
        rules: Sequence[DriftRule],
    ) -> None:
        self.line = line.model_copy(
            update={"samples": scores.samples.key, "scores": dict(scores.scores)}
        )
        self.samples = scores.samples
        self.run = run
        self.policy = policy
        self.rules = rules
        tests = len(rules)
        if tests > 1:
            tests += 1  # their mean
        self.level = LEVEL / tests
        looks = looks_before(history, line)
        self.newest: tuple[Look, ...] = ()
        if not was_run(looks, line):
            self.newest = (Look(self.line, self.samples),)
        codes = set(sample_codes(self.samples))
        min_common = _COMMON * len(codes)
        self.looks = tuple(
            look
            for look in looks
            if len(codes.intersection(sample_codes(look.samples))) >= min_common
        )
        self.pasts = {
            rule.metric: past_of(self.looks, self.line, rule.metric) for rule in rules
        }

    def follow(self) -> list[tuple[Check, BelowPart]]:
        """The checks of the losses that were not over, and what is known of them with
        this run."""
        groups: dict[
            tuple[str | None, tuple[str, ...], int], list[tuple[Column, BelowPart]]
        ] = {}
        for rule in self.rules:
            for part in self.pasts[rule.metric].open:
                column, start = self._around(rule, part)
                groups.setdefault((part.slice, column.names, start), []).append(
                    (column, part)
                )
        followed = []
        for (_, _, start), losses in groups.items():
            means = mean_of([column for column, _ in losses])
            mean_shown = any(mean.shows_loss_since(start, self.level) for mean in means)
            for column, part in losses:
                followed.append(
                    self._followed(column, start, part, means, mean_shown=mean_shown)
                )
        return followed

    def _around(self, rule: DriftRule, part: BelowPart) -> tuple[Column, int]:
        """The healthy runs before a loss and all since, and the index of the first of
        these."""
        past = self.pasts[rule.metric]
        place = past.place(part)
        healthy = past.sound
        if past.start >= place:
            healthy = [
                index for index, is_healthy in enumerate(past.healthy) if is_healthy
            ]
        before = [index for index in healthy if index < place][-LOOKED_BACK:]
        after = range(place, len(past.looks) + len(self.newest))
        column = self._column(rule, [*before, *after[-LOOKED_BACK:]], part.slice)
        return column, min(len(before), column.newest)

    def _followed(
        self,
        column: Column,
        start: int,
        part: BelowPart,
        means: Sequence[Column],
        *,
        mean_shown: bool,
    ) -> tuple[Check, BelowPart]:
        """The loss since the run `start`; `means` has the mean of what fell with it, if
        that is several metrics."""
        if not self.newest:
            return column.loss_check(
                start, Status.FAIL if part.shown else Status.INCONCLUSIVE
            ), part
        merges = column.merges_since(start)
        was_shown = part.shown and merges > 1
        min_loss = max(_MIN_LOSS, column.limit / 2.0, part.loss)
        series = [lost.series for lost in (column, *means)]
        recovery = recovered_since(
            series, start, min_loss, self.level, was_shown=was_shown
        )
        if column.allowed and column.excess_at(start) > -column.limit / 2.0:
            recovery = column.newest
        if recovery is not None:
            until = column.looks[recovery].line.run
            recovered = column.part(
                start, shown=part.shown, loss=part.loss, until=until
            )
            return column.loss_check(start, Status.PASS), recovered
        shown = merges > 0 and (
            mean_shown or column.shows_loss_since(start, self.level)
        )
        loss = -column.excess_at(start) if shown else part.loss
        status = Status.FAIL if shown else Status.INCONCLUSIVE
        return column.loss_check(start, status), column.part(
            start, shown=shown or was_shown, loss=loss
        )

    def decided_loss(self, check: Check, part: BelowPart | None) -> BelowPart | None:
        """The loss that a drop is which failed or is not settled; None for other
        checks.

        `part` is what else is said of the same loss.
        """
        is_bad = check.kind in CHANGES and check.status in (
            Status.FAIL,
            Status.INCONCLUSIVE,
        )
        if not is_bad:
            return None
        shown = check.failed
        if part is not None:  # it is not over, whatever else shows that it is
            return part.model_copy(update={"shown": shown or part.shown, "until": None})
        rule = next((rule for rule in self.rules if rule.metric == check.metric), None)
        if rule is None or not self.newest or not self.pasts[rule.metric].sound:
            return None
        column = self._column(rule, [len(self.pasts[rule.metric].looks)], check.slice)
        return column.part(0, shown=shown, loss=abs(check.estimate or 0.0))

    def search(self, *, main: bool) -> Drift:
        """The losses that are new with this run, as checks; one check that passes if
        there is none."""
        rules = [rule for rule in self.rules if not self.pasts[rule.metric].open]
        groups = self._columns_by_runs(rules)
        if rules and not groups:
            note = "Drift is not measured yet: the history has no earlier run to compare with."
            return Drift(notes=(note,))
        losses: list[tuple[Column, int]] = []
        for columns in groups:
            losses += _losses(columns, self.level)
        checks = [_new_loss_check(column, start, main=main) for column, start in losses]
        if groups and not losses:
            checks = [groups[0][0].passing_check()]
        below = []
        for column, start in losses:
            if column.metric is not None:
                shown = start < column.newest
                loss = -column.excess_at(start)
                below.append(column.part(start, shown=shown, loss=loss))
        return Drift(tuple(checks), below=tuple(below))

    def _column(
        self, rule: DriftRule, places: Sequence[int], slice_: str | None = None
    ) -> Column:
        """The runs at `places` in the past of the metric, with the scores of the
        samples of a slice."""
        past = self.pasts[rule.metric]
        codes = sample_codes(self.samples)
        groups = group_codes(self.samples)
        if slice_ is not None:
            members = self._members(slice_)
            is_member = [code in members for code in codes]
            codes = list(compress(codes, is_member))
            if groups is not None:
                groups = list(compress(groups, is_member))
        runs = (*past.looks, *self.newest)
        looks = tuple(runs[place] for place in places)
        series = _series(
            looks, rule.metric, codes, groups, lower=rule.direction.lower_is_better
        )
        return Column(
            (rule,),
            looks,
            tuple(places),
            series,
            newly_accepted(past, self.line, slice_),
            slice_,
        )

    def _columns_by_runs(self, rules: Sequence[DriftRule]) -> list[list[Column]]:
        """The metrics with healthy runs in the time that the policy looks back on, those
        with the same runs together."""
        start = self.line.time - timedelta(days=self.policy.drift.days)
        groups: dict[tuple[str, ...], list[Column]] = {}
        for rule in rules:
            past = self.pasts[rule.metric]
            sound = [
                index for index in past.sound if past.looks[index].line.time >= start
            ]
            if sound:
                newest = len(past.looks) + len(self.newest) - 1
                places = {*sound[:BEFORE], *sound[-LOOKED_BACK:], newest}
                column = self._column(rule, sorted(places))
                groups.setdefault(column.names, []).append(column)
        return list(groups.values())

    def _members(self, tag: str) -> set[str]:
        """The codes of the samples with a tag."""
        samples = self.run.samples.items()
        return {
            sample_code(sample_id, facts.content_hash)
            for sample_id, facts in samples
            if tag in facts.tags
        }


def _new_loss_check(column: Column, start: int, *, main: bool) -> Check:
    """The check of a loss that is new. On `main`, the newest run alone is a suspicion;
    a pull request fails only for what began with it."""
    is_new = start == column.newest
    status = Status.INCONCLUSIVE if main and is_new else Status.FAIL
    check = column.loss_check(start, status)
    if main or is_new:
        return check
    return replace(check, action=Action.WARN)


def _rules(policy: Policy, run: RunScores) -> list[DriftRule]:
    """The requirements on each metric that the policy has a rule for, over all
    samples."""
    rules = []
    for rule in resolve_rules(policy, run):
        if (
            rule.slice is not None
            or not run.scores_of(rule.metric).values
            or is_relative(rule.metric)
        ):
            continue
        max_drift = policy.drift.max_drift
        if rule.key in policy.metrics:
            own_max_drift = policy.metrics[rule.key].max_drift
            if own_max_drift is not None:
                max_drift = own_max_drift
        action = (
            Action.WARN
            if Action.WARN in (policy.drift.action, rule.drop_action)
            else Action.BLOCK
        )
        rules.append(DriftRule(rule.metric, max_drift, action, rule.direction))
    return rules


def _series(
    looks: Sequence[Look],
    metric: str,
    codes: Sequence[str],
    groups: Sequence[str] | None,
    *,
    lower: bool,
) -> Series:
    """The scores of the samples `codes` in the runs `looks`, where more is better."""
    labels = None if groups is None else np.unique(groups, return_inverse=True)[1]
    series = Series(scores_of(looks, codes, metric), labels)
    if lower:
        return series.flipped()
    return series


def _losses(columns: Sequence[Column], level: float) -> list[tuple[Column, int]]:
    """Those of `columns`, and of their mean, that show a loss, with its likeliest first
    run, by index.

    Metrics that fell with the mean are named, so that they can be investigated or
    accepted.
    """
    means = mean_of(columns)
    starts = [column.start_of_loss(level) for column in columns]
    start_of_mean = means[0].start_of_loss(level) if means else None
    if start_of_mean is None:
        return [
            (column, start)
            for column, start in zip(columns, starts, strict=True)
            if start is not None
        ]
    lowest = min(column.excess_at(start_of_mean) for column in columns)
    fallen = []
    for column, start in zip(columns, starts, strict=True):
        fell_with_mean = column.excess_at(start_of_mean) <= max(
            lowest, -column.limit / 2.0
        )
        if start is not None or fell_with_mean:
            fallen.append(column)
    return [(column, start_of_mean) for column in (*fallen, *means)]


def _notice(part: BelowPart) -> str:
    """What a pull request says of a loss on the main branch."""
    title = part.metric if part.slice is None else f"{part.metric} on '{part.slice}'"
    may = "is" if part.shown else "may be"
    return (
        f"The main branch {may} {figure(part.loss)} below its level of {title} {since(part.commit, part.merges)}. "
        "This run is compared with the main branch as it is now, and does not fail for that."
    )
