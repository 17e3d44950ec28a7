"""Finds drift: compares a run with the runs of the main branch before it, and returns
the result as checks of the gate.

A loss is written into the history with the run that shows it. While only one run shows
it, it is a suspicion, and its check is inconclusive; with a second run, the check
fails. The loss lasts until recovery is shown or it is accepted, whatever one later run
shows by itself.
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
from ragstone.gate.verdict import CHANGE_KINDS, Action, Check, Status
from ragstone.history.codes import CompactScores, sample_code
from ragstone.history.column import Column, DriftRule, cause_of, mean_columns, since
from ragstone.history.file import NEWEST_RUNS, History
from ragstone.history.level import (
    MetricPast,
    ScoredRun,
    past_of,
    runs_before,
    scores_of,
    was_run,
)
from ragstone.history.lines import BelowPart, RunLine
from ragstone.metrics.registry import is_relative
from ragstone.stats.lasting_loss import (
    ERROR_RATE,
    MAX_RUNS_BEFORE,
    Series,
    recovered_since,
)

_MIN_COMMON_SHARE = 0.5
"""A run is comparable if it has at least this share of the samples of the newest
run."""

_MIN_LOSS = 0.01
"""Recovery from a smaller loss is tested as recovery from this one: a smaller loss
could hardly be told from none."""


_NO_RULE = MetricRule()
"""Stands for the rule of a metric that the policy does not name."""


class Drift(Struct, frozen=True):
    """What a comparison with earlier runs of the main branch adds to a run."""

    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the top of the report."""
    notes: tuple[str, ...] = ()
    """Sentences for the end of the report."""
    below: tuple[BelowPart, ...] = ()
    """The losses to write into the line of the run."""


def measure_drift(
    history: History,
    line: RunLine,
    scores: CompactScores,
    run: RunScores,
    policy: Policy,
    *,
    is_main: bool = True,
    decided: Sequence[Check] = (),
) -> Drift:
    """Compare the run of `line`, with per-sample `scores`, with the runs in `history`.

    `run` decides which rules of `policy` apply. If the run belongs to a pull request
    (not `is_main`), the report says what the main branch has lost, and only a loss that
    begins with this run blocks. `decided` are the checks of a run with a verdict: a
    drop that failed or is inconclusive is a loss of the branch from then on.
    """
    rules = _rules(policy, run)
    comparison = _Comparison(history, line, scores, run, rules, policy.drift.days)
    new_losses = comparison.find_new_losses(is_main=is_main)
    if not is_main:
        open_losses = chain.from_iterable(
            past.open_losses for past in comparison.pasts.values()
        )
        return replace(new_losses, warnings=tuple(map(_notice, open_losses)), below=())
    outcomes = comparison.follow_losses()
    losses = (*(loss for _, loss in outcomes), *new_losses.below)
    below = {(loss.metric, loss.slice): loss for loss in losses}
    for check in decided:
        if check.kind not in CHANGE_KINDS or check.passed:
            continue
        metric = check.metric or ""
        key = (metric, check.slice)
        if key in below:
            # The drop check sees the loss in this very run: it can't be over.
            shown = check.failed or below[key].shown
            below[key] = below[key].model_copy(update={"shown": shown, "until": None})
            continue
        past = comparison.pasts.get(metric)
        if past is not None and past.level_candidates and comparison.new_runs:
            column = comparison.column(metric, [len(past.runs)], check.slice)
            loss = abs(check.estimate or 0.0)
            below[key] = column.part(0, shown=check.failed, loss=loss)
    lasting_checks = [check for check, _ in outcomes if not check.passed]
    recovery_notes = [check.reason for check, _ in outcomes if check.passed]
    # No check says that nothing was lost while an earlier loss lasts.
    new_checks = [
        check for check in new_losses.checks if not lasting_checks or not check.passed
    ]
    return Drift(
        checks=(*lasting_checks, *new_checks),
        notes=(*recovery_notes, *new_losses.notes),
        below=tuple(below.values()),
    )


def find_cause(
    history: History, metric: str, *, lower_is_better: bool
) -> tuple[MetricPast, tuple[RunLine, ...]]:
    """The past of `metric` up to its newest run, and the runs one of which brought the
    loss, if there was one.

    No run is named if fewer than two are comparable.
    """
    lines = [line for line in history.gated if metric in line.scores]
    if not lines:
        return MetricPast((), (), 0), ()
    newest = lines[-1]
    runs = runs_before(history, newest)
    if not was_run(runs, newest):
        runs = (*runs, ScoredRun(newest, history.samples[newest.samples or ""]))
    past = past_of(runs, newest, metric)
    if len(past.runs) < 2:
        return past, ()
    scores = scores_of(past.runs, past.runs[-1].samples.ids, metric)
    if lower_is_better:
        scores = 1.0 - scores
    return past, cause_of(past.runs, Series(scores))


_LossKey = tuple[str | None, tuple[str, ...], int]
"""What losses that began together have in common: the tag of their samples, the
fingerprints of the compared runs, and the index of the first run after the loss."""


class _Comparison:
    """A run of the main branch, or of a pull request, and the runs before it."""

    def __init__(
        self,
        history: History,
        line: RunLine,
        scores: CompactScores,
        run: RunScores,
        rules: Mapping[str, DriftRule],
        days: float,
    ) -> None:
        self.line = scores.added_to(line)
        self.samples = scores.samples
        self.run = run
        self.oldest_time = line.time - timedelta(days=days)
        self.rules = rules
        self.error_rate = ERROR_RATE
        if len(rules) > 1:
            self.error_rate /= len(rules) + 1  # one test each, and one of their mean
        runs = runs_before(history, line)
        self.new_runs: tuple[ScoredRun, ...] = ()
        """This run, alone; empty if a run before it was of the same commit."""
        if not was_run(runs, line):
            self.new_runs = (ScoredRun(self.line, self.samples),)
        codes = set(self.samples.ids)
        comparable = [
            earlier
            for earlier in runs
            if len(codes.intersection(earlier.samples.ids))
            >= _MIN_COMMON_SHARE * len(codes)
        ]
        self.pasts = {
            metric: past_of(comparable, self.line, metric) for metric in self.rules
        }

    def follow_losses(self) -> list[tuple[Check, BelowPart]]:
        """Decide for each open loss whether it is over with this run."""
        groups: dict[_LossKey, list[tuple[Column, BelowPart]]] = {}
        for metric, past in self.pasts.items():
            for loss in past.open_losses:
                first = past.start_of(loss)
                # A drop accepted before the loss moved the level that it fell from.
                is_level_moved = past.accepted_at < first
                healthy = past.level_candidates if is_level_moved else past.healthy
                before = [index for index in healthy if index < first][-NEWEST_RUNS:]
                after = range(first, len(past.runs) + len(self.new_runs))
                indexes = [*before, *after[-NEWEST_RUNS:]]
                column = self.column(metric, indexes, loss.slice)
                start = min(len(before), column.newest)
                key = (loss.slice, _fingerprints(column), start)
                groups.setdefault(key, []).append((column, loss))
        outcomes = []
        for (_, _, start), losses in groups.items():
            means = mean_columns([column for column, _ in losses])
            for column, loss in losses:
                outcomes.append(self._follow_loss(column, start, loss, means))
        return outcomes

    def _follow_loss(
        self, column: Column, start: int, loss: BelowPart, means: Sequence[Column]
    ) -> tuple[Check, BelowPart]:
        """Decide whether a loss since the run `start` is over; `means` has the mean of
        the metrics that fell together, if there are several."""
        status = Status.FAIL if loss.shown else Status.INCONCLUSIVE
        if not self.new_runs:
            return column.loss_check(start, status), loss
        losing_columns = (column, *means)
        merges = column.merges_since(start)
        was_shown = loss.shown and merges > 1
        half_limit = column.rule.max_drift / 2.0
        recovery = recovered_since(
            [lost.series for lost in losing_columns],
            start,
            max(_MIN_LOSS, half_limit, loss.loss),
            self.error_rate,
            was_shown=was_shown,
        )
        # What the accepted drop does not explain is too little to be shown as a loss.
        if column.allowed and column.excess_at(start) > -half_limit:
            recovery = column.newest
        if recovery is not None:
            until = column.runs[recovery].line.run
            below = column.part(start, shown=loss.shown, loss=loss.loss, until=until)
            return column.loss_check(start, Status.PASS), below
        shown = merges > 0 and any(
            lost.shows_loss_since(start, self.error_rate) for lost in losing_columns
        )
        status = Status.FAIL if shown else Status.INCONCLUSIVE
        size = -column.excess_at(start) if shown else loss.loss
        below = column.part(start, shown=shown or was_shown, loss=size)
        return column.loss_check(start, status), below

    def find_new_losses(self, *, is_main: bool) -> Drift:
        """Check each metric without an open loss; one check passes if none shows a
        loss.

        On the main branch, a loss that only the newest run shows is a suspicion. A pull
        request fails only for a loss that begins with it.
        """
        pasts = {
            metric: past for metric, past in self.pasts.items() if not past.open_losses
        }
        groups: dict[tuple[str, ...], list[Column]] = {}
        for metric, past in pasts.items():
            recent = [
                index
                for index in past.level_candidates
                if past.runs[index].line.time >= self.oldest_time
            ]
            if recent:
                newest = len(past.runs) + len(self.new_runs) - 1
                indexes = {*recent[:MAX_RUNS_BEFORE], *recent[-NEWEST_RUNS:], newest}
                column = self.column(metric, sorted(indexes))
                groups.setdefault(_fingerprints(column), []).append(column)
        if not groups:
            note = "Drift is not measured yet: the history has no earlier run to compare with."
            return Drift(notes=(note,) if pasts else ())
        checks = []
        below = []
        for columns in groups.values():
            for column, start in _losses(columns, self.error_rate):
                is_new = start == column.newest
                status = Status.INCONCLUSIVE if is_main and is_new else Status.FAIL
                check = column.loss_check(start, status)
                if not is_main and not is_new:
                    check = replace(check, action=Action.WARN)
                checks.append(check)
                if column.rule.metric is not None:
                    loss = -column.excess_at(start)
                    below.append(column.part(start, shown=not is_new, loss=loss))
        if not checks:
            checks = [next(iter(groups.values()))[0].passing_check()]
        return Drift(tuple(checks), below=tuple(below))

    def column(
        self, metric: str, indexes: Sequence[int], slice_: str | None = None
    ) -> Column:
        """The scores of `metric` in these runs of its past, the new run being the last;
        with `slice_`, of the samples with this tag."""
        past = self.pasts[metric]
        rule = self.rules[metric]
        all_runs = (*past.runs, *self.new_runs)
        runs = tuple(all_runs[index] for index in indexes)
        scores = scores_of(runs, self.samples.ids, metric)
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
        # Drops that were in force in a healthy run before are in its level already.
        accepted_before = {
            entry.id
            for index in past.healthy
            for entry in past.runs[index].line.accepted
        }
        accepted = [
            entry.drop
            for entry in self.line.accepted
            if (entry.metric, entry.slice) == (metric, slice_)
            and entry.id not in accepted_before
        ]
        allowed = sum(accepted, start=0.0)
        return Column(rule, runs, tuple(indexes), series, allowed, slice_)


def _fingerprints(column: Column) -> tuple[str, ...]:
    """The fingerprints of the runs of `column`."""
    return tuple(run.line.run for run in column.runs)


def _rules(policy: Policy, run: RunScores) -> dict[str, DriftRule]:
    """The drift rule of each measured metric that the policy has a requirement on."""
    rules = {}
    in_force = policy.rules_in_force
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


def _losses(columns: Sequence[Column], error_rate: float) -> list[tuple[Column, int]]:
    """Those of `columns`, and of their mean, that show a loss, each with the index of
    the run it most probably began with.

    If the mean shows a loss, the metrics that fell with it are included, so that they
    can be investigated or accepted.
    """
    means = mean_columns(columns)
    starts = [column.start_of_loss(error_rate) for column in columns]
    start_of_mean = means[0].start_of_loss(error_rate) if means else None
    if start_of_mean is None:
        return [
            (column, start)
            for column, start in zip(columns, starts, strict=True)
            if start is not None
        ]
    changes = [column.excess_at(start_of_mean) for column in columns]
    largest_loss = min(changes)
    losing_columns = []
    for column, start, change in zip(columns, starts, changes, strict=True):
        # Half of what its rule allows; if no metric fell so far, the largest loss.
        limit = max(largest_loss, -column.rule.max_drift / 2.0)
        if start is not None or change <= limit:
            losing_columns.append(column)
    return [(column, start_of_mean) for column in (*losing_columns, *means)]


def _notice(loss: BelowPart) -> str:
    """The warning of a pull request about a loss on the main branch."""
    title = title_of(loss.metric, loss.slice)
    verb = "has been" if loss.shown else "may have been"
    return (
        f"The main branch {verb} {figure(loss.loss)} below its level of {title} {since(loss.commit, loss.merges)}. "
        "This run is compared with the main branch as it is now, and does not fail for that."
    )
