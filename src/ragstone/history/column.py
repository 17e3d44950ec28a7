"""A metric of the main branch, or the mean of several, in the runs that are compared: a
loss, its place, its check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.formatting import counted, figure, listed, percent, score
from ragstone.gate.direction import HIGHER, Direction
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.level import LOOKED_BACK, Look
from ragstone.history.lines import BelowPart, RunLine
from ragstone.stats.steps import Series, Step, mean_series

_NAMED = 0.9
"""The probability that the merges named as the cause have together."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The runs one of which is the first after a loss."""

    lines: tuple[RunLine, ...]
    """The oldest first."""
    share: float
    """The probability that it is one of them."""

    def __str__(self) -> str:
        """``the merge of 3f2a91c (92 %)``."""
        commits = [commit_of(line) for line in self.lines]
        chance = percent(round(min(0.99, self.share), 2))
        if len(commits) == 1:
            return f"the merge of {commits[0]} ({chance})"
        return f"one of {len(commits)} merges, {commits[0]} to {commits[-1]} ({chance})"


@dataclass(frozen=True, slots=True)
class DriftRule:
    """How much of a metric may be lost over the runs."""

    metric: str
    max_drift: float
    action: Action
    direction: Direction


@dataclass(frozen=True, slots=True)
class Column:
    """A metric, or the mean of several, in the runs that are compared, where more is
    better."""

    rules: tuple[DriftRule, ...]
    looks: tuple[Look, ...]
    """The runs, the newest last."""
    places: tuple[int, ...]
    """The places of the runs among all comparable ones."""
    series: Series
    allowed: float = 0.0
    """The loss that was accepted."""
    slice: str | None = None

    @property
    def metric(self) -> str | None:
        """The name of the metric; None for a mean."""
        if len(self.rules) == 1:
            return self.rules[0].metric
        return None

    @property
    def direction(self) -> Direction:
        """Of a mean, more is better."""
        if len(self.rules) == 1:
            return self.rules[0].direction
        return HIGHER

    @property
    def limit(self) -> float:
        return float(np.mean([rule.max_drift for rule in self.rules]))

    @property
    def newest(self) -> int:
        """The index of the newest run."""
        return len(self.looks) - 1

    @property
    def names(self) -> tuple[str, ...]:
        """The runs, by name."""
        return tuple(look.line.run for look in self.looks)

    @property
    def title(self) -> str:
        if self.metric is None:
            names = [
                f"1 − {rule.metric}" if rule.direction.lower_is_better else rule.metric
                for rule in self.rules
            ]
            return f"the mean of {listed(names)}"
        if self.slice is None:
            return self.metric
        return f"{self.metric} on '{self.slice}'"

    def merges_since(self, run: int) -> int:
        """The number of runs after `run`, by index."""
        return self.places[-1] - self.places[run]

    def chances(self) -> dict[int, float]:
        """The probability of each of the newest runs, by index, to be the first after a
        loss; the likeliest first."""
        oldest = max(0, self.newest - LOOKED_BACK)
        near = replace(self.series, scores=self.series.scores[oldest:])
        chances = enumerate(near.first_run_chances().tolist(), start=oldest)
        return dict(sorted(chances, key=lambda item: -item[1]))

    def cause(self) -> Cause:
        """The fewest runs that have a probability of `_NAMED` together."""
        indexes: list[int] = []
        share = 0.0
        for index, chance in self.chances().items():
            indexes.append(index)
            share += chance
            if share >= _NAMED:
                break
        return Cause(
            tuple(self.looks[index].line for index in sorted(indexes)), min(1.0, share)
        )

    def start_of_loss(self, level: float) -> int | None:
        """The likeliest first run of a loss that the newest runs show at the error rate
        `level`, by index."""
        if any(
            step.shows(self.limit, level) for step in self.series.steps(self.allowed)
        ):
            return next(iter(self.chances()))
        return None

    def shows_loss_since(self, start: int, level: float) -> bool:
        """Whether a loss since the run `start` is shown at the error rate `level`."""
        return any(
            step.shows(self.limit, level)
            for step in self.series.steps_at(start, self.allowed)
        )

    def step_at(self, start: int) -> Step | None:
        """The largest step to the runs since `start`."""
        steps = self.series.steps_at(start, self.allowed)
        return min(steps, key=lambda step: step.change, default=None)

    def excess_at(self, start: int) -> float:
        """The change beyond what is allowed since the run `start`."""
        step = self.step_at(start)
        if step is None:
            return 0.0
        return step.excess

    def part(
        self, start: int, *, shown: bool, loss: float, until: str | None = None
    ) -> BelowPart:
        """What the line of the newest run says of a loss since the run `start`."""
        first = self.looks[start].line
        return BelowPart(
            metric=self.rules[0].metric,
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
        step = self.step_at(start)
        beyond = self.direction.beyond
        when = since(self.looks[start].line.commit, self.merges_since(start))
        if status is Status.PASS:
            return self._check(
                status,
                f"{self.title} was {beyond} its level {when}, and is back at it.",
                step,
            )
        figures = "" if step is None else f" ({self._from_to(step)})"
        if status is Status.INCONCLUSIVE:
            reason = f"{self.title} may be {beyond} its level {when}{figures}; later runs of main will settle it."
        else:
            reason = (
                f"{self.title} is {beyond} its level {when}{figures}; that lasts until recovery is shown or the loss "
                f"is accepted. It came with {self.cause()}."
            )
        return self._check(status, reason, step)

    def passing_check(self) -> Check:
        """The check of a run that shows no loss in any metric."""
        runs = counted(self.merges_since(0), "main run")
        first = commit_of(self.looks[0].line)
        reason = f"no slow loss is shown since {first}, {runs} ago."
        check = self._check(Status.PASS, reason, None)
        return replace(check, name="drift", metric=None)

    def _from_to(self, step: Step) -> str:
        then = self.direction.shown(step.level - step.change)
        now = self.direction.shown(step.level)
        accepted = (
            f", of which {figure(self.allowed)} was accepted" if self.allowed else ""
        )
        return f"{score(then)} → {score(now)} on {counted(step.n, 'sample')} in common{accepted}"

    def _check(self, status: Status, reason: str, step: Step | None) -> Check:
        name = "drift" if self.metric is None else f"{self.metric}.drift"
        check = Check(
            name=name if self.slice is None else f"{self.slice}/{name}",
            kind=CheckKind.DRIFT,
            status=status,
            action=Action.BLOCK
            if any(rule.action is Action.BLOCK for rule in self.rules)
            else Action.WARN,
            reason=reason,
            metric=self.metric,
            slice=self.slice,
            threshold=0.0 - self.limit,
        )
        if step is None:
            return check
        level = self.direction.shown(step.level)
        before = self.direction.shown(step.level - step.change)
        return replace(
            check, estimate=step.excess, current=level, baseline=before, n=step.n
        )


def mean_of(columns: Sequence[Column]) -> list[Column]:
    """The mean of several metrics with the same runs, if there are several."""
    if len(columns) < 2 or columns[0].slice is not None:
        return []
    series = mean_series([column.series for column in columns])
    rules = tuple(column.rules[0] for column in columns)
    allowed = sum(column.allowed for column in columns) / len(columns)
    return [replace(columns[0], rules=rules, series=series, allowed=allowed)]


def since(commit: str | None, merges: int) -> str:
    """``since 3f2a91c, 4 merges ago``."""
    start = commit[:7] if commit else "a run of no known commit"
    if merges:
        return f"since {start}, {counted(merges, 'merge')} ago"
    return f"since {start}, the newest merge"


def commit_of(line: RunLine) -> str:
    """The commit of a run, or else its date."""
    if line.commit:
        return line.commit[:7]
    return f"{line.time:%Y-%m-%d %H:%M}"
