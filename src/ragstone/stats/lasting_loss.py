"""A lasting loss in a series of runs: whether there is one, since which run, and
whether it is over.

The scores of the newest runs are compared with those of runs before them by the test
for drops (stats/losses.py). It learns how much each question's score moves by chance,
and how often an answer is repeated in the next run, so that an answer that did not
change counts once. It learns from both sets of runs, since where most answers stay the
same, a few runs before tell hardly more than one. The constants were chosen with
`bench/level.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.losses import (
    MIN_ERRORS,
    MIN_RUNS,
    Change,
    loss_p_value,
    row_means,
)
from ragstone.stats.score_model import learn

ERROR_RATE = 2e-3
"""The error rate of a step, for all series together."""
NEWEST_RUNS = (1, 2, 4, 8)
"""How many of the newest runs are compared with those before them, one after the
other."""
MAX_RUNS_BEFORE = 12
"""The maximum number of runs that the newest ones are compared with."""
MIN_RUNS_BEFORE = 2
"""The minimum number of runs before the newest ones: one alone says nothing about
noise."""

_MIN_ERRORS_OF_STEP = 3.0
"""A fall of fewer standard errors is not drawn: it shows no loss."""
_STRICTER_FOR_ONE_RUN = 50.0
"""A single run shows a recovery if its p-value is this many times below the error rate: it
may be a lucky one."""
_MAX_P_HALF_LOST = 0.05
"""The largest p-value with which the newest runs still show half of a loss."""
_MAX_P_SUSPECTED = 0.1
"""The largest p-value with which the newest runs are suspected of a loss."""
# After so many runs that are not suspected, a loss is over.
_RUNS_TO_END_SUSPECTED_LOSS = 2
_RUNS_TO_END_SHOWN_LOSS = 8


class Step(Struct, frozen=True):
    """The change of the mean between two sets of runs."""

    change: float
    before: range
    """The indices of the runs before the step."""
    test: Change
    """The scores of both sets, for the test."""

    @property
    def excess(self) -> float:
        """The change beyond the accepted loss, below 0 for a further loss."""
        return self.change - self.test.expected

    def shows(self, limit: float, error_rate: float) -> bool:
        """Whether a loss beyond the accepted one, of at least half of `limit`, is shown
        at the `error_rate`.

        No loss is shown if the newest run made good more than half of it.
        """
        if len(self.before) < MIN_RUNS_BEFORE or self.excess > -limit / 2.0:
            return False
        changes = self.test.after[:, -1] - row_means(self.test.before)
        if np.nanmean(changes) - self.test.expected > self.excess / 2.0:
            return False
        return loss_p_value(self.test, min_errors=_MIN_ERRORS_OF_STEP) <= error_rate


class FirstRun(Struct, frozen=True):
    """A run that may be the first after a lasting loss."""

    index: int
    probability: float


class Series(Struct, frozen=True):
    """The scores of questions in several runs, where more is better."""

    scores: Floats
    """(t, n): the scores of n questions in t runs, NaN where there is none."""
    groups: Ints | None = None
    """(n,): labels, equal for related questions."""

    def step(self, before: range, after: range, *, allowed: float = 0.0) -> Step | None:
        """The step from the runs `before` to the runs `after`; None if they have no
        question in common.

        `allowed` is the accepted loss.
        """
        scores_before = self.scores[before]
        scores_after = self.scores[after]
        has_before = np.isfinite(scores_before).any(axis=0)
        common = np.flatnonzero(has_before & np.isfinite(scores_after).any(axis=0))
        if not len(common):
            return None
        test = Change(
            common,
            after=scores_after[:, common].T,
            before=scores_before[:, common].T,
            groups=self.groups,
            expected=-allowed,
            is_apart=after.start - before.stop >= MAX_RUNS_BEFORE,
            is_pooled=True,
        )
        return Step(float(test.values.mean()), before, test)

    def steps(self, allowed: float = 0.0) -> Iterator[Step]:
        """The steps to the newest 1, 2, 4 and 8 runs, from the runs just before them
        and from the first runs of the series."""
        for runs in NEWEST_RUNS:
            start = len(self.scores) - runs
            if runs <= start:  # no fewer runs before than after
                yield from self.steps_to(start, allowed)

    def steps_to(self, start: int, allowed: float = 0.0) -> Iterator[Step]:
        """The steps to the runs from `start` on, from the runs just before them and, if
        there are more, from the first runs of the series."""
        ranges_before = [range(max(0, start - MAX_RUNS_BEFORE), start)]
        if start > MAX_RUNS_BEFORE:
            # A slow loss is small beside the runs just before.
            ranges_before.append(range(min(MAX_RUNS_BEFORE, start // 2)))
        for before in ranges_before:
            step = self.step(before, range(start, len(self.scores)), allowed=allowed)
            if step is not None:
                yield step

    def likely_first_runs(self, newest: int) -> list[FirstRun]:
        """Which of the `newest` runs may be the first after a lasting loss, if there
        was one; the likeliest first.

        By the fall of the mean at each run, with a flat prior.
        """
        oldest = max(0, len(self.scores) - 1 - newest)
        scores = self.scores[oldest:]
        scores = scores[:, np.isfinite(scores).any(axis=0)]
        t, n = scores.shape
        centred = np.nan_to_num(scores - np.nanmean(scores, axis=0)).mean(axis=1)
        # The fall at each place: the mean of the runs before it less that of the runs
        # from it on.
        places = np.arange(1, t)
        sums = np.cumsum(centred)
        falls = sums[:-1] / places - (sums[-1] - sums[:-1]) / (t - places)
        # The fall in standard errors is largest at the likeliest place. Noise is learnt
        # from the runs before it, if these are enough.
        likeliest = int(places[np.argmax(falls * np.sqrt(places * (t - places)))])
        model = learn(scores[:likeliest].T if likeliest >= MIN_RUNS else scores.T)
        variances = np.array(
            [model.variance_of_change(place, t - place).sum() for place in range(1, t)]
        )
        # Logarithms of the likelihood ratios of a normal fall and of none.
        exponents = np.maximum(0.0, falls * n) ** 2 / variances / 2.0
        weights = np.exp(exponents - exponents.max())
        probabilities = weights / weights.sum()
        likeliest_first = places[np.argsort(-probabilities, kind="stable")].tolist()
        return [
            FirstRun(oldest + place, float(probabilities[place - 1]))
            for place in likeliest_first
        ]

    def fall_p_value(
        self, before: range, after: range, *, min_errors: float = MIN_ERRORS
    ) -> float:
        """The p-value of "no loss" between these runs; 1 if they have no question in
        common."""
        step = self.step(before, after)
        if step is None:
            return 1.0
        return loss_p_value(step.test, min_errors=min_errors)


def recovered_since(
    series: Sequence[Series],
    start: int,
    loss: float,
    error_rate: float,
    *,
    was_shown: bool,
) -> int | None:
    """The index of the run since which a `loss` is over that began with the run
    `start`; None if no recovery is shown.

    The first of `series` is that of the metric that lost; the others are means of
    metrics that fell together. A rise in any of them shows the recovery at the
    `error_rate`, if the newest runs don't show half of the loss. So do enough runs in
    which none of the series is suspected of a loss: more if the loss `was_shown`.
    """
    t = len(series[0].scores)
    healthy = range(max(0, start - MAX_RUNS_BEFORE), start)
    min_runs = _RUNS_TO_END_SHOWN_LOSS if was_shown else _RUNS_TO_END_SUSPECTED_LOSS
    # Upside down, so that a rise is a fall.
    mirrored = [replace(member, scores=1.0 - member.scores) for member in series]
    for runs in NEWEST_RUNS:
        first = t - runs
        if first <= start:
            return None
        newest = range(first, t)
        lost = range(max(start, first - MAX_RUNS_BEFORE), first)
        beyond_half = series[0].step(healthy, newest, allowed=loss / 2.0)
        is_half_lost = beyond_half is not None and (
            beyond_half.excess < 0.0
            or loss_p_value(beyond_half.test) <= _MAX_P_HALF_LOST
        )
        if not is_half_lost:
            rise_p_value = min(
                member.fall_p_value(lost, newest, min_errors=_MIN_ERRORS_OF_STEP)
                for member in mirrored
            )
            if rise_p_value <= (
                error_rate / _STRICTER_FOR_ONE_RUN if runs == 1 else error_rate
            ):
                return first
        if runs >= min_runs and all(
            member.fall_p_value(healthy, newest) > _MAX_P_SUSPECTED for member in series
        ):
            return first
    return None


def mean_series(metrics: Sequence[Series]) -> Series:
    """The mean over the metrics that a question has in any run; NaN in the runs in
    which it lacks one of them."""
    scores = np.stack([series.scores for series in metrics])
    has_metric = np.isfinite(scores).any(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        mean = np.where(has_metric, scores, 0.0).sum(axis=0) / has_metric.sum(axis=0)
    return replace(metrics[0], scores=mean)
