"""Is the main branch below its level? Compares a run with the runs before it, as checks
of the gate.

A loss is written into the line of its run. The newest run alone opens a suspicion,
which is inconclusive; a second run turns it red. It lasts until recovery is shown or it
is accepted, whatever one later run shows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import figure
from ragstone.gate.accepted import title_of
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import MetricRule
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import CHANGES, Action, Check, Status
from ragstone.history.codes import Compact, sample_code
from ragstone.history.column import Column, DriftRule, cause_of, mean_of, since
from ragstone.history.file import NEWEST, History
from ragstone.history.level import (
    Look,
    MetricPast,
    looks_before,
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


_NO_RULE = MetricRule()
"""Instead of a rule for a metric that the policy does not name."""


class Drift(Struct, frozen=True):
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
    watch = _Watch(history, line, scores, run, rules, policy.drift.days)
    new = watch.search(main=main)
    if not main:
        open_losses = chain.from_iterable(past.open for past in watch.pasts.values())
        return replace(new, warnings=tuple(map(_notice, open_losses)), below=())
    followed = watch.follow()
    parts = (*(part for _, part in followed), *new.below)
    below = {(part.metric, part.slice): part for part in parts}
    for check in decided:
        if check.kind not in CHANGES or check.passed:
            continue
        place = (check.metric or "", check.slice)
        if place in below:  # it is not over, whatever else shows that it is
            shown = check.failed or below[place].shown
            below[place] = below[place].model_copy(
                update={"shown": shown, "until": None}
            )
            continue
        past = watch.pasts.get(place[0])
        if past is not None and past.sound and watch.newest:
            column = watch.column(place[0], [len(past.looks)], check.slice)
            below[place] = column.part(
                0, shown=check.failed, loss=abs(check.estimate or 0.0)
            )
    lasting = [check for check, _ in followed if not check.passed]
    recovered = [check.reason for check, _ in followed if check.passed]
    added = [check for check in new.checks if not lasting or not check.passed]
    return Drift(
        checks=(*lasting, *added),
        notes=(*recovered, *new.notes),
        below=tuple(below.values()),
    )


def find_cause(
    history: History, metric: str, *, lower_is_better: bool
) -> tuple[MetricPast, tuple[RunLine, ...]]:
    """What the history says about `metric` as of its newest run, and the runs one of
    which brought a loss, if there was one.

    There are none with fewer than two comparable runs.
    """
    runs = [line for line in history.gated if metric in line.scores]
    if not runs:
        return MetricPast((), (), 0), ()
    newest = runs[-1]
    looks = looks_before(history, newest)
    if not was_run(looks, newest):
        looks = (*looks, Look(newest, history.samples[newest.samples or ""]))
    past = past_of(looks, newest, metric)
    if len(past.looks) < 2:
        return past, ()
    scores = scores_of(past.looks, past.looks[-1].samples.ids, metric)
    if lower_is_better:
        scores = 1.0 - scores
    return past, cause_of(past.looks, Series(scores))


_LossKey = tuple[str | None, tuple[str, ...], int]
"""Of losses that began together: the tag of their samples, the names of the runs that
are compared, and the first of these after the loss."""


class _Watch:
    """A run of the branch, or of a pull request, and the runs before it."""

    def __init__(
        self,
        history: History,
        line: RunLine,
        scores: Compact,
        run: RunScores,
        rules: Mapping[str, DriftRule],
        days: float,
    ) -> None:
        self.line = scores.kept_in(line)
        self.samples = scores.samples
        self.run = run
        self.oldest = line.time - timedelta(days=days)
        self.rules = rules
        self.level = LEVEL
        if len(rules) > 1:
            self.level /= len(rules) + 1  # with their mean
        looks = looks_before(history, line)
        self.newest: tuple[Look, ...] = ()
        if not was_run(looks, line):
            self.newest = (Look(self.line, self.samples),)
        codes = set(self.samples.ids)
        comparable = [
            look
            for look in looks
            if len(codes.intersection(look.samples.ids)) >= _COMMON * len(codes)
        ]
        self.pasts = {
            metric: past_of(comparable, self.line, metric) for metric in self.rules
        }

    def follow(self) -> list[tuple[Check, BelowPart]]:
        """The checks of the losses that were not over, and what is known of them with
        this run."""
        groups: dict[_LossKey, list[tuple[Column, BelowPart]]] = {}
        for metric, past in self.pasts.items():
            for part in past.open:
                place = past.place(part)
                healthy = past.sound if past.start < place else past.healthy
                before = [index for index in healthy if index < place][-NEWEST:]
                after = range(place, len(past.looks) + len(self.newest))
                places = [*before, *after[-NEWEST:]]
                column = self.column(metric, places, part.slice)
                start = min(len(before), column.newest)
                key = (part.slice, _names(column), start)
                groups.setdefault(key, []).append((column, part))
        followed = []
        for (_, _, start), losses in groups.items():
            means = mean_of([column for column, _ in losses])
            for column, part in losses:
                followed.append(self._followed(column, start, part, means))
        return followed

    def _followed(
        self, column: Column, start: int, part: BelowPart, means: Sequence[Column]
    ) -> tuple[Check, BelowPart]:
        """The loss since the run `start`; `means` has the mean of what fell with it, if
        that is several metrics."""
        status = Status.FAIL if part.shown else Status.INCONCLUSIVE
        if not self.newest:
            return column.loss_check(start, status), part
        merges = column.merges_since(start)
        was_shown = part.shown and merges > 1
        limit = column.rule.max_drift / 2.0
        recovery = recovered_since(
            [lost.series for lost in (column, *means)],
            start,
            max(_MIN_LOSS, limit, part.loss),
            self.level,
            was_shown=was_shown,
        )
        if column.allowed and column.excess_at(start) > -limit:
            recovery = column.newest
        if recovery is not None:
            until = column.looks[recovery].line.run
            below = column.part(start, shown=part.shown, loss=part.loss, until=until)
            return column.loss_check(start, Status.PASS), below
        shown = merges > 0 and any(
            lost.shows_loss_since(start, self.level) for lost in (column, *means)
        )
        status = Status.FAIL if shown else Status.INCONCLUSIVE
        loss = -column.excess_at(start) if shown else part.loss
        below = column.part(start, shown=shown or was_shown, loss=loss)
        return column.loss_check(start, status), below

    def search(self, *, main: bool) -> Drift:
        """The losses that are new with this run, as checks; one check that passes if
        there is none.

        On `main`, the newest run alone is a suspicion; a pull request fails only for
        what began with it.
        """
        steady = {metric: past for metric, past in self.pasts.items() if not past.open}
        groups: dict[tuple[str, ...], list[Column]] = {}
        for metric, past in steady.items():
            # The healthy runs in the time that the policy looks back on.
            sound = [
                index
                for index in past.sound
                if past.looks[index].line.time >= self.oldest
            ]
            if sound:
                newest = len(past.looks) + len(self.newest) - 1
                places = {*sound[:BEFORE], *sound[-NEWEST:], newest}
                column = self.column(metric, sorted(places))
                groups.setdefault(_names(column), []).append(column)
        if not groups:
            note = "Drift is not measured yet: the history has no earlier run to compare with."
            return Drift(notes=(note,) if steady else ())
        checks = []
        below = []
        for columns in groups.values():
            for column, start in _losses(columns, self.level):
                is_new = start == column.newest
                status = Status.INCONCLUSIVE if main and is_new else Status.FAIL
                check = column.loss_check(start, status)
                if not main and not is_new:
                    check = replace(check, action=Action.WARN)
                checks.append(check)
                if column.rule.metric is not None:
                    loss = -column.excess_at(start)
                    below.append(column.part(start, shown=not is_new, loss=loss))
        if not checks:
            checks = [next(iter(groups.values()))[0].passing_check()]
        return Drift(tuple(checks), below=tuple(below))

    def column(
        self, metric: str, places: Sequence[int], slice_: str | None = None
    ) -> Column:
        """The runs at `places` in the past of the metric, with the scores of the
        samples of a slice."""
        past = self.pasts[metric]
        rule = self.rules[metric]
        runs = (*past.looks, *self.newest)
        looks = tuple(runs[place] for place in places)
        scores = scores_of(looks, self.samples.ids, metric)
        if rule.direction.lower_is_better:
            scores = 1.0 - scores
        groups = None
        if self.samples.groups is not None:
            groups = np.array(self.samples.groups)
        series = Series(scores, groups)
        if slice_ is not None:
            members = {
                sample_code(sample_id, facts.content_hash)
                for sample_id, facts in self.run.samples.items()
                if slice_ in facts.tags
            }
            is_member = np.array([code in members for code in self.samples.ids], bool)
            series = Series(
                scores[:, is_member], None if groups is None else groups[is_member]
            )
        # What is accepted in this run, and was in no healthy run before.
        accepted_before: set[str] = set()
        for index in past.healthy:
            accepted_before.update(
                entry.id for entry in past.looks[index].line.accepted
            )
        accepted = [
            entry.drop
            for entry in self.line.accepted
            if (entry.metric, entry.slice) == (metric, slice_)
            and entry.id not in accepted_before
        ]
        allowed = sum(accepted, start=0.0)
        return Column(rule, looks, tuple(places), series, allowed, slice_)


def _names(column: Column) -> tuple[str, ...]:
    """The runs of `column`, by name."""
    return tuple(look.line.run for look in column.looks)


def _rules(policy: Policy, run: RunScores) -> dict[str, DriftRule]:
    """The requirement on each metric that the policy has a rule for, over all
    samples."""
    rules = {}
    in_force = policy.in_force
    for rule in resolve_rules(policy, run):
        metric = rule.metric
        is_measured = bool(run.scores_of(metric).values)
        if rule.slice is not None or not is_measured or is_relative(metric):
            continue
        max_drift = in_force.get(rule.key, _NO_RULE).max_drift
        if max_drift is None:
            max_drift = policy.drift.max_drift
        action = Action.BLOCK
        if Action.WARN in (policy.drift.action, rule.drop_action):
            action = Action.WARN
        rules[metric] = DriftRule(metric, metric, max_drift, action, rule.direction)
    return rules


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
    changes = [column.excess_at(start_of_mean) for column in columns]
    largest = min(changes)
    fallen = []
    for column, start, change in zip(columns, starts, changes, strict=True):
        limit = max(largest, -column.rule.max_drift / 2.0)
        if start is not None or change <= limit:
            fallen.append(column)
    return [(column, start_of_mean) for column in (*fallen, *means)]


def _notice(part: BelowPart) -> str:
    """What a pull request says of a loss on the main branch."""
    title = title_of(part.metric, part.slice)
    may = "may be"
    if part.shown:
        may = "is"
    return (
        f"The main branch {may} {figure(part.loss)} below its level of {title} {since(part.commit, part.merges)}. "
        "This run is compared with the main branch as it is now, and does not fail for that."
    )
