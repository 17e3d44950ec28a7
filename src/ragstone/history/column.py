"""The scores of a metric, or of the mean of several, in the compared runs of the main
branch: whether a loss is shown, since which run, and the check that says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.formatting import counted, figure, join_first, listed, score
from ragstone.gate.accepted import title_of
from ragstone.gate.bounds import mean_score
from ragstone.gate.direction import HIGHER, Direction
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.file import NEWEST_RUNS
from ragstone.history.level import ScoredRun
from ragstone.history.lines import BelowPart, RunLine
from ragstone.stats.lasting_loss import Series, Step, mean_series

_MIN_CAUSE_PROBABILITY = 0.9
"""The least probability that one of the merges named as the cause brought the loss."""


class DriftRule(Struct, frozen=True):
    """How much of a metric, or of the mean of several, may be lost over the runs."""

    metric: str | None
    """The name of the metric; None for the mean of several."""
    title: str
    max_drift: float
    action: Action
    direction: Direction = HIGHER

    @property
    def threshold(self) -> float:
        """The least change that is allowed; a loss is negative."""
        return 0.0 - self.max_drift  # not -0.0 where no loss is allowed


class Column(Struct, frozen=True):
    """The scores of a metric, or of the mean of several, in the compared runs. Runs are
    given by their index in `runs`."""

    rule: DriftRule
    runs: tuple[ScoredRun, ...]
    """The compared runs, the oldest first."""
    positions: tuple[int, ...]
    """The position of each run among all comparable ones: some runs are left out."""
    series: Series
    """The scores of each run, turned so that more is better."""
    allowed: float = 0.0
    """The loss that was accepted."""
    slice: str | None = None
    """The tag of the samples; None for all samples."""

    @property
    def newest(self) -> int:
        """The index of the newest run."""
        return len(self.runs) - 1

    def merges_since(self, run: int) -> int:
        """How many comparable runs came after `run`."""
        return self.positions[-1] - self.positions[run]

    def start_of_loss(self, error_rate: float) -> int | None:
        """The run that a loss most probably began with; None if the newest runs show no
        loss at this error rate."""
        steps = self.series.steps(self.allowed)
        if any(step.shows(self.rule.max_drift, error_rate) for step in steps):
            return self.series.likely_first_runs(NEWEST_RUNS)[0].index
        return None

    def shows_loss_since(self, start: int, error_rate: float) -> bool:
        """Whether a loss since the run `start` is shown at this error rate."""
        steps = self.series.steps_to(start, self.allowed)
        return any(step.shows(self.rule.max_drift, error_rate) for step in steps)

    def step_at(self, start: int) -> Step | None:
        """The step with the largest loss to the runs from `start` on; None if they have
        no sample in common with the runs before."""
        steps = self.series.steps_to(start, self.allowed)
        return min(steps, key=lambda step: step.change, default=None)

    def excess_at(self, start: int) -> float:
        """The change since the run `start`, without the loss that was accepted;
        negative for a loss."""
        step = self.step_at(start)
        return 0.0 if step is None else step.excess

    def part(
        self, start: int, *, shown: bool, loss: float, until: str | None = None
    ) -> BelowPart:
        """What the line of the newest run says of a loss since the run `start`; `until`
        is the first healthy run after it."""
        first = self.runs[start].line
        return BelowPart(
            metric=self.rule.title,
            slice=self.slice,
            since=first.run,
            commit=first.commit,
            loss=round(min(1.0, max(0.0, loss)), 5),  # as precise as stored means
            shown=shown,
            merges=self.merges_since(start),
            until=until,
        )

    def loss_check(self, start: int, status: Status) -> Check:
        """The check of a loss since the run `start`, which passes if the loss is
        over."""
        name = "drift" if self.rule.metric is None else f"{self.rule.metric}.drift"
        check = Check(
            name=name if self.slice is None else f"{self.slice}/{name}",
            kind=CheckKind.DRIFT,
            status=status,
            action=self.rule.action,
            reason="",
            metric=self.rule.metric,
            slice=self.slice,
            threshold=self.rule.threshold,
        )
        step = self.step_at(start)
        if step is not None:
            reported = self.rule.direction.reported
            check = replace(
                check,
                estimate=step.excess,
                current=reported(mean_score(step.test.after)),
                baseline=reported(mean_score(step.test.before)),
                n=len(step.test.units),
            )
        return replace(check, reason=self._reason(start, check))

    def _reason(self, start: int, check: Check) -> str:
        """The sentence for `check`, of a loss since the run `start`."""
        title = title_of(self.rule.title, self.slice)
        beginning = since(self.runs[start].line.commit, self.merges_since(start))
        below_level = f"{self.rule.direction.failing_side} its level {beginning}"
        if check.status is Status.PASS:
            return f"{title} had been {below_level}, and is back at it."
        if check.n:
            means = f"{score(check.baseline)} → {score(check.current)}"
            below_level += f" ({means} on {counted(check.n, 'sample')} in common"
            if self.allowed:
                below_level += f", of which {figure(self.allowed)} was accepted"
            below_level += ")"
        if check.status is Status.INCONCLUSIVE:
            return f"{title} may have been {below_level}; later runs of main will settle it."
        return (
            f"{title} has been {below_level}; that lasts until recovery is shown or the loss is accepted. "
            f"{came_with(cause_of(self.runs, self.series))}"
        )

    def passing_check(self) -> Check:
        """The check of a run that shows no loss in any metric."""
        runs = counted(self.merges_since(0), "main run")
        first = run_name(self.runs[0].line)
        return Check(
            name="drift",
            kind=CheckKind.DRIFT,
            status=Status.PASS,
            action=self.rule.action,
            reason=f"no slow loss is shown since {first}, {runs} ago.",
            threshold=self.rule.threshold,
        )


def cause_of(runs: Sequence[ScoredRun], series: Series) -> tuple[RunLine, ...]:
    """The fewest `runs`, the oldest first, one of which brought a loss with the
    probability `_MIN_CAUSE_PROBABILITY`. They need not be neighbours."""
    suspects: list[int] = []
    probability = 0.0
    for first_run in series.likely_first_runs(NEWEST_RUNS):
        suspects.append(first_run.index)
        probability += first_run.probability
        if probability >= _MIN_CAUSE_PROBABILITY:
            break
    return tuple(runs[index].line for index in sorted(suspects))


def came_with(runs: Sequence[RunLine]) -> str:
    """``It came with the merge of 3f2a91c.``, or with one of several."""
    names = join_first(list(map(run_name, runs)))
    if len(runs) == 1:
        return f"It came with the merge of {names}."
    return f"It came with one of {len(runs)} merges: {names}."


def mean_columns(columns: Sequence[Column]) -> list[Column]:
    """The mean of several metrics with the same runs, alone in a list; an empty list
    for one metric, or for a slice."""
    if len(columns) < 2 or columns[0].slice is not None:
        return []
    rules = [column.rule for column in columns]
    names = [rule.direction.rising_name(rule.title) for rule in rules]
    actions = {rule.action for rule in rules}
    action = Action.BLOCK if Action.BLOCK in actions else Action.WARN
    max_drift = float(np.mean([rule.max_drift for rule in rules]))
    rule = DriftRule(None, f"the mean of {listed(names)}", max_drift, action)
    series = mean_series([column.series for column in columns])
    allowed = sum(column.allowed for column in columns) / len(columns)
    return [replace(columns[0], rule=rule, series=series, allowed=allowed)]


def since(commit: str | None, merges: int) -> str:
    """``since 3f2a91c, 4 merges ago``."""
    start = commit[:7] if commit else "a run of an unknown commit"
    if merges:
        return f"since {start}, {counted(merges, 'merge')} ago"
    return f"since {start}, the newest merge"


def run_name(line: RunLine) -> str:
    """The short commit of a run; its date and time if the commit is not known."""
    if line.commit:
        return line.commit[:7]
    return f"{line.time:%Y-%m-%d %H:%M}"
