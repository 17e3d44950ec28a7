"""A lasting loss in a series of runs: whether there is one, since which run, and
whether it is over.

The scores of the newest runs are compared with those of runs before them by the test
for drops (stats/losses.py): it learns how much each question's score moves by chance,
and how often an answer comes again, so that an answer that did not change counts once.
It learns from both sides: every look is a new chance of an error, and where most
answers stay the same, a few runs before are hardly more than one. The constants were
chosen with `bench/level.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragstone.stats.losses import (
    CLEARLY_NONE,
    MIN_RUNS,
    Change,
    loss_p_value,
    row_means,
)
from ragstone.stats.score_model import learn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 2e-3
"""Error rate of a step, for all columns together."""
WINDOWS = (1, 2, 4, 8)
"""So many of the newest runs are compared with those before them."""
BEFORE = 12
"""Maximum number of runs that the newest ones are compared with: those before them, and
those at the anchor."""
MIN_BEFORE = 2
"""Minimum number of runs before the newest ones: one alone says nothing about noise."""

_MIN_ERRORS = 3.0
"""A fall of fewer standard errors is not looked at more closely."""
_LUCK = 50.0
"""One run shows a recovery only by itself if its p-value is so many times smaller."""
_STILL_BELOW = 0.05
"""The p-value at which the newest runs still show half of a loss."""
_UNSUSPECTED = 0.1
"""The p-value above which the newest runs are no longer suspected of a loss."""
_UNSUSPECTED_RUNS = 2
_UNSHOWN_RUNS = 8
"""So many runs above `_UNSUSPECTED` end a loss that was only suspected, and one that
was shown."""


class Step(Struct, frozen=True):
    """The change of the mean between two sets of runs."""

    change: float
    before: range
    """The runs before it."""
    test: Change

    @property
    def excess(self) -> float:
        """The change beyond what is allowed."""
        return self.change - self.test.expected

    def shows(self, limit: float, level: float) -> bool:
        """Whether a loss beyond what is allowed, of at least half of `limit`, is shown
        at the error rate `level`.

        None is shown if the newest run is back at the level already.
        """
        if len(self.before) < MIN_BEFORE or self.excess > -limit / 2.0:
            return False
        newest = float(np.nanmean(self.test.now[:, -1] - row_means(self.test.then)))
        if newest > self.excess / 2.0:
            return False
        return loss_p_value(self.test, min_errors=_MIN_ERRORS) <= level


class Series(Struct, frozen=True):
    """The scores of questions in several runs, where more is better."""

    scores: Floats
    """(t, n): those of n questions in t runs, NaN where there is none."""
    groups: Ints | None = None
    """(n,): labels of related questions."""

    def step(self, before: range, after: range, *, allowed: float = 0.0) -> Step | None:
        """The step from the runs `before` to the runs `after`; None if they have no
        question in common.

        `allowed` is the fall that counts as none.
        """
        then = self.scores[before]
        now = self.scores[after]
        common = np.flatnonzero(
            np.isfinite(then).any(axis=0) & np.isfinite(now).any(axis=0)
        )
        if not len(common):
            return None
        test = Change(
            common,
            now[:, common].T,
            then[:, common].T,
            self.groups,
            expected=-allowed,
            apart=after.start - before.stop >= BEFORE,
            pooled=True,
        )
        return Step(float(test.values.mean()), before, test)

    def steps(self, allowed: float = 0.0) -> Iterator[Step]:
        """The steps to the newest 1, 2, 4 … runs, from those just before them and from
        the first ones."""
        for runs in WINDOWS:
            start = len(self.scores) - runs
            if runs <= start:
                yield from self.steps_at(start, allowed)

    def steps_at(self, start: int, allowed: float = 0.0) -> Iterator[Step]:
        """The steps to the runs from `start` on, from those just before them and from
        the first ones."""
        bases = [range(max(0, start - BEFORE), start)]
        if start > BEFORE:
            bases.append(range(min(BEFORE, start // 2)))
        for base in bases:
            step = self.step(base, range(start, len(self.scores)), allowed=allowed)
            if step is not None:
                yield step

    def first_run_chances(self, newest: int) -> list[tuple[float, int]]:
        """The probability of each of the `newest` runs to be the first after a lasting
        loss, if there was one, and its index; the likeliest first.

        By the fall of the mean at each place, with a flat prior.
        """
        oldest = max(0, len(self.scores) - 1 - newest)
        scores = self.scores[oldest:]
        scores = scores[:, np.isfinite(scores).any(axis=0)]
        t, n = scores.shape
        centred = np.nan_to_num(scores - np.nanmean(scores, axis=0)).mean(axis=1)
        places = np.arange(1, t)
        sums = np.cumsum(centred)
        falls = sums[:-1] / places - (sums[-1] - sums[:-1]) / (t - places)
        likeliest = int(places[np.argmax(falls * np.sqrt(places * (t - places)))])
        model = learn(scores[:likeliest].T if likeliest >= MIN_RUNS else scores.T)
        variances = np.array(
            [model.variance_of_change(place, t - place).sum() for place in range(1, t)]
        )
        exponents = np.maximum(0.0, falls * n) ** 2 / variances / 2.0
        weights = np.exp(exponents - exponents.max())
        chances = weights / weights.sum()
        order = np.argsort(-chances, kind="stable")
        return [(float(chances[place]), oldest + 1 + int(place)) for place in order]

    def fall_p_value(
        self, before: range, after: range, *, min_errors: float = CLEARLY_NONE
    ) -> float:
        """The p-value of "no loss" between these runs; 1 without a question in
        common."""
        step = self.step(before, after)
        if step is None:
            return 1.0
        return loss_p_value(step.test, min_errors=min_errors)


def recovered_since(
    series: Sequence[Series], start: int, loss: float, level: float, *, was_shown: bool
) -> int | None:
    """The run from which on the `loss` of the first of `series` since the run `start`
    is over, if that is shown.

    A rise in any of `series` (a metric, the mean of those that fell together) shows it
    at the error rate `level`, if the newest runs don't show half of the loss; so do
    enough runs in which none of them is suspected any more.
    """
    t = len(series[0].scores)
    healthy = range(max(0, start - BEFORE), start)
    min_runs = _UNSHOWN_RUNS if was_shown else _UNSUSPECTED_RUNS
    rising = [replace(column, scores=1.0 - column.scores) for column in series]
    for runs in WINDOWS:
        first = t - runs
        if first <= start:
            return None
        newest = range(first, t)
        lost = range(max(start, first - BEFORE), first)
        half = series[0].step(healthy, newest, allowed=loss / 2.0)
        shows_half = half is not None and (
            half.change < -loss / 2.0 or loss_p_value(half.test) <= _STILL_BELOW
        )
        if not shows_half:
            rise = min(
                column.fall_p_value(lost, newest, min_errors=_MIN_ERRORS)
                for column in rising
            )
            if rise <= (level / _LUCK if runs == 1 else level):
                return first
        if runs >= min_runs and all(
            column.fall_p_value(healthy, newest) > _UNSUSPECTED for column in series
        ):
            return first
    return None


def mean_series(columns: Sequence[Series]) -> Series:
    """The mean over the metrics that a question has, where it has all of them."""
    scores = np.stack([column.scores for column in columns])
    has = np.isfinite(scores).any(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        mean = np.where(has, scores, 0.0).sum(axis=0) / has.sum(axis=0)
    return replace(columns[0], scores=mean)
