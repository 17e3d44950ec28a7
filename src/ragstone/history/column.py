"""A metric of the main branch, or the mean of several, in the runs that are compared: a
loss, its place, its check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.formatting import counted, figure, listed, score
from ragstone.gate.accepted import title_of
from ragstone.gate.bounds import mean_score
from ragstone.gate.direction import HIGHER, Direction
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.file import NEWEST
from ragstone.history.level import Look
from ragstone.history.lines import BelowPart, RunLine
from ragstone.stats.steps import Series, Step, mean_series

_NAMED = 0.9
"""The probability that the merges named as the cause have together."""


class DriftRule(Struct, frozen=True):
    """How much of a metric, or of the mean of several, may be lost over the runs."""

    metric: str | None
    """None for a mean."""
    title: str
    max_drift: float
    action: Action
    direction: Direction = HIGHER


class Column(Struct, frozen=True):
    """A metric, or the mean of several, in the runs that are compared, where more is
    better."""

    rule: DriftRule
    looks: tuple[Look, ...]
    """The runs, the newest last."""
    places: tuple[int, ...]
    """The places of the runs among all comparable ones."""
    series: Series
    allowed: float = 0.0
    """The loss that was accepted."""
    slice: str | None = None

    @property
    def newest(self) -> int:
        """The index of the newest run."""
        return len(self.looks) - 1

    def merges_since(self, run: int) -> int:
        """The number of runs after `run`, by index."""
        return self.places[-1] - self.places[run]

    def start_of_loss(self, level: float) -> int | None:
        """The likeliest first run of a loss that the newest runs show at the error rate
        `level`, by index."""
        steps = self.series.steps(self.allowed)
        if any(step.shows(self.rule.max_drift, level) for step in steps):
            return self.series.first_run_chances(NEWEST)[0][1]
        return None

    def shows_loss_since(self, start: int, level: float) -> bool:
        """Whether a loss since the run `start` is shown at the error rate `level`."""
        steps = self.series.steps_at(start, self.allowed)
        return any(step.shows(self.rule.max_drift, level) for step in steps)

    def step_at(self, start: int) -> Step | None:
        """The largest step to the runs since `start`."""
        steps = self.series.steps_at(start, self.allowed)
        return min(steps, key=lambda step: step.change, default=None)

    def excess_at(self, start: int) -> float:
        """The change beyond what is allowed since the run `start`."""
        step = self.step_at(start)
        return 0.0 if step is None else step.excess

    def part(
        self, start: int, *, shown: bool, loss: float, until: str | None = None
    ) -> BelowPart:
        """What the line of the newest run says of a loss since the run `start`."""
        first = self.looks[start].line
        return BelowPart(
            metric=self.rule.title,
            slice=self.slice,
            since=first.run,
            commit=first.commit,
            loss=round(min(1.0, max(0.0, loss)), 5),
            shown=shown,
            merges=self.merges_since(start),
            until=until,
        )

    def loss_check(self, start: int, status: Status) -> Check:
        """The check of a loss since the run `start`; it passes if it is over."""
        title = title_of(self.rule.title, self.slice)
        when = since(self.looks[start].line.commit, self.merges_since(start))
        level = f"{self.rule.direction.beyond} its level {when}"
        name = "drift" if self.rule.metric is None else f"{self.rule.metric}.drift"
        check = Check(
            name=name if self.slice is None else f"{self.slice}/{name}",
            kind=CheckKind.DRIFT,
            status=status,
            action=self.rule.action,
            reason=f"{title} was {level}, and is back at it.",
            metric=self.rule.metric,
            slice=self.slice,
            threshold=0.0 - self.rule.max_drift,
        )
        step = self.step_at(start)
        figures = ""
        if step is not None:
            n = len(step.test.units)
            now = self.rule.direction.shown(mean_score(step.test.now))
            then = self.rule.direction.shown(mean_score(step.test.then))
            check = replace(
                check, estimate=step.excess, current=now, baseline=then, n=n
            )
            figures = (
                f"{score(then)} → {score(now)} on {counted(n, 'sample')} in common"
            )
            if self.allowed:
                figures += f", of which {figure(self.allowed)} was accepted"
            figures = f" ({figures})"
        if status is Status.PASS:
            return check
        if status is Status.INCONCLUSIVE:
            reason = (
                f"{title} may be {level}{figures}; later runs of main will settle it."
            )
            return replace(check, reason=reason)
        cause = came_with(cause_of(self.looks, self.series))
        until = "that lasts until recovery is shown or the loss is accepted"
        reason = f"{title} is {level}{figures}; {until}. {cause}"
        return replace(check, reason=reason)

    def passing_check(self) -> Check:
        """The check of a run that shows no loss in any metric."""
        runs = counted(self.merges_since(0), "main run")
        first = commit_of(self.looks[0].line)
        return Check(
            name="drift",
            kind=CheckKind.DRIFT,
            status=Status.PASS,
            action=self.rule.action,
            reason=f"no slow loss is shown since {first}, {runs} ago.",
            threshold=0.0 - self.rule.max_drift,
        )


def cause_of(looks: Sequence[Look], series: Series) -> tuple[RunLine, ...]:
    """The fewest of the runs `looks` one of which brought a loss with a probability of
    `_NAMED`; the oldest first."""
    named: list[int] = []
    share = 0.0
    for chance, index in series.first_run_chances(NEWEST):
        named.append(index)
        share += chance
        if share >= _NAMED:
            break
    return tuple(looks[index].line for index in sorted(named))


def came_with(runs: Sequence[RunLine]) -> str:
    """``It came with the merge of 3f2a91c.``"""
    first = commit_of(runs[0])
    if len(runs) == 1:
        return f"It came with the merge of {first}."
    return f"It came with one of {len(runs)} merges, {first} to {commit_of(runs[-1])}."


def mean_of(columns: Sequence[Column]) -> list[Column]:
    """The mean of several metrics with the same runs, if there are several."""
    if len(columns) < 2 or columns[0].slice is not None:
        return []
    rules = [column.rule for column in columns]
    names = [rule.direction.rising(rule.title) for rule in rules]
    actions = {rule.action for rule in rules}
    action = Action.BLOCK if Action.BLOCK in actions else Action.WARN
    limit = float(np.mean([rule.max_drift for rule in rules]))
    rule = DriftRule(None, f"the mean of {listed(names)}", limit, action)
    series = mean_series([column.series for column in columns])
    allowed = sum(column.allowed for column in columns) / len(columns)
    return [replace(columns[0], rule=rule, series=series, allowed=allowed)]


def since(commit: str | None, merges: int) -> str:
    """``since 3f2a91c, 4 merges ago``."""
    start = "a run of no known commit"
    if commit:
        start = commit[:7]
    if merges:
        return f"since {start}, {counted(merges, 'merge')} ago"
    return f"since {start}, the newest merge"


def commit_of(line: RunLine) -> str:
    """The commit of a run, or else its date."""
    if line.commit:
        return line.commit[:7]
    return f"{line.time:%Y-%m-%d %H:%M}"
