"""A lasting loss in a series of runs: whether there is one, since which run, and whether it has recovered.

The same units (samples) are observed in run after run. How much their mean moves by chance is learnt from the series:
half the mean squared change of a unit over h runs is the variogram (N. Cressie, "Statistics for Spatial Data", 1993,
chapter 2), fitted by a non-negative sum of valid ones. So it is known how much averaging helps where many answers are
the same again, and a step is estimated by generalised least squares. An ongoing loss would inflate the noise and hide
itself. If nothing changed, a rise is as likely as a fall of the same size; so the more pairs of runs there are, the
more the estimate relies on rises, which a loss leaves alone.

A loss is shown if the newest 1, 2, 4 or 8 runs are below those before them, or below the first ones, at the error rate
`LEVEL` by that noise, and by `SPREAD` standard errors of the units' own changes (as if each were as likely to fall as
to rise: a change that makes some units better and others worse is no loss). It must be at least half of the loss to
detect, like the reference value of a cusum chart (E. Page, "Continuous inspection schemes", Biometrika 41, 1954). The
constants were chosen with `bench/level.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.normal import normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEVEL = 3e-4
"""Error rate of a step, for all columns together: 3.8 standard errors with four metrics and their mean."""

SPREAD = 2.4
"""Six units that lost as much as each other, and none that won, are 2.45: 1 in 64 by chance."""

WINDOWS = (1, 2, 4, 8)
BEFORE = 8
"""Maximum number of runs that the newest ones are compared with: those before them, and those at the anchor."""

MIN_BEFORE = 2
"""Minimum number of runs before the newest ones: one alone says nothing about noise."""

RECOVERED = 0.5
"""The log of the likelihood ratio from which on a recovery is shown."""

AT_ONCE = 7.0
"""What it takes for one run alone: 1,000 to 1, so that a lucky run changes nothing."""

_CORRELATIONS = (0.3, 0.6, 0.8, 0.9, 0.95)
_PAIRS = 4.0
_UNSEEN = 0.125
"""Squared change of one extra unit, used as the noise of units that never changed."""


@dataclass(frozen=True, slots=True)
class Series:
    """The scores (t, n) of n units in t runs, where more is better and NaN is missing.

    `places` (t,) are the runs' places in time, `sound` (t,) marks those from which noise is learnt, and `groups` (n,)
    labels related units.
    """

    scores: Floats
    places: Ints
    sound: Bools
    groups: Ints | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, runs: Ints) -> Series:
        """The series of `runs`, by index."""
        return Series(self.scores[runs], self.places[runs], self.sound[runs], self.groups)


@dataclass(frozen=True, slots=True)
class Step:
    """The mean after less the mean before, on `n` units; how many standard errors it is below 0 by each measure.

    `level` is the mean after, `newest` that of the newest run alone. `before` and `after` count runs.
    """

    change: float
    level: float
    newest: float
    noise: float
    spread: float
    n: int
    before: int
    after: int

    def shows(self, loss: float, *, columns: int, allowed: float = 0.0) -> bool:
        """Whether a loss beyond what is `allowed` is shown that is at least half of `loss`, in one of `columns`."""
        excess = self.change + allowed
        if excess >= 0.0 or excess > -loss / 2.0:
            return False
        if self.newest - self.level > -excess / 2.0:
            return False  # the newest run is back already
        share = excess / self.change
        # Of few runs before, the noise is hardly known.
        critical = -normal_quantile(LEVEL / columns) * (1.0 + 4.0 / self.before**2)
        return share * self.noise >= critical and share * self.spread >= SPREAD

    @property
    def may_alarm(self) -> bool:
        """Whether there are enough runs before it."""
        return self.before >= MIN_BEFORE


def steps(series: Series, covariance: Floats) -> dict[tuple[int, bool], Step]:
    """The step of the newest w runs from those before them (False) and from the first ones (True), by w."""
    t, found = len(series), {}
    for w in WINDOWS:
        if w > max(1, t // 2):
            break
        newest = np.arange(t - w, t)
        before = np.arange(max(0, t - w - BEFORE), t - w)
        first = np.arange(min(BEFORE, max(1, (t - w) // 2)))
        for base, anchored in ((before, False), (first, True)):
            step = step_between(series, covariance, base, newest)
            if step is not None:
                found[w, anchored] = step
    return found


def step_between(series: Series, covariance: Floats, before: Ints, after: Ints) -> Step | None:
    """The step from the runs `before` to the runs `after`; None if they have no unit in common."""
    values, kept = _complete(series.scores, before, after)
    if not values.shape[1]:
        return None
    runs = np.concatenate([before, after])
    later = np.repeat([0.0, 1.0], [len(before), len(after)])
    inverse = _precision(covariance[np.ix_(runs, runs)])
    information = float(later @ inverse @ later)
    change = (later @ inverse / information) @ values
    by_group = change if series.groups is None else np.bincount(series.groups[kept], weights=change)
    root = math.sqrt(float(by_group @ by_group))
    mean = float(change.mean())
    spread = -float(by_group.sum()) / root if root > 0.0 else 0.0
    level, newest = float(values[len(before) :].mean()), float(values[-1].mean())
    return Step(mean, level, newest, -mean * math.sqrt(information), spread, len(change), len(before), len(after))


def mean_series(columns: Sequence[Series]) -> Series:
    """The mean of several columns of the same runs and units, each of which counts the same."""
    total = np.zeros_like(columns[0].scores)
    for column in columns:
        values = _filled(column.scores)
        has: Bools = np.asarray(np.isfinite(values).any(axis=0))
        total += np.where(has, np.nan_to_num(values), 0.0) * (len(has) / max(1, int(has.sum())))
    return replace(columns[0], scores=total / len(columns))


def change_points(series: Series, covariance: Floats) -> Floats:
    """The probability (t,) of each run to be the first after a lasting loss, if there was one; 0 for the first run.

    By the means of the runs, with the same prior probability for every run and every size of the loss.
    """
    from scipy.special import log_ndtr

    t = len(series)
    means = _filled(series.scores).mean(axis=1)
    inverse = _precision(covariance)
    weights = np.full(t, -np.inf)
    for k in range(1, t):
        later = (np.arange(t) >= k).astype(np.float64)
        information = float(later @ inverse @ later)
        z = -float(later @ inverse @ means) / math.sqrt(information)
        weights[k] = z * z / 2.0 + float(log_ndtr(z)) - math.log(information) / 2.0
    found = np.exp(weights - weights.max())
    return np.asarray(found / found.sum())


def recovery(series: Series, covariance: Floats, start: int, loss: float) -> tuple[float, int | None]:
    """The evidence that the `loss` since the run `start` is over, and the run from which on; None if that is not shown.

    The log of the likelihood ratio of "no loss from that run on" to "the loss lasts", for the likeliest such run. The
    newest run alone shows it at `AT_ONCE` only, and more runs at `RECOVERED`.
    """
    t = len(series)
    values, _ = _complete(series.scores, np.arange(start), np.arange(start, t))
    inverse = _precision(covariance)
    lost = (np.arange(t) >= start).astype(np.float64)
    residual = inverse @ (values.mean(axis=1) + loss * lost)
    found: list[tuple[float, int]] = []
    for run in range(start, t):
        back = (np.arange(t) >= run).astype(np.float64)
        found.append((float(loss * (back @ residual) - loss**2 / 2.0 * (back @ inverse @ back)), run))
    shown = [one for one in found if one[0] >= (AT_ONCE if one[1] == t - 1 else RECOVERED)]
    return (max(found)[0], None) if not shown else max(shown)


def noise_of(series: Series) -> Floats:
    """The covariance (t, t) of the runs' means, up to a constant."""
    from scipy.optimize import nnls

    places = series.places - series.places[0]
    lags, squares = _half_squares(series)
    span = int(places[-1]) + 1
    at, pairs = np.unique(lags, return_counts=True)
    means = np.array([squares[lags == lag].mean() for lag in at])
    root = np.sqrt(pairs)
    weights, _ = nnls((1.0 - _shapes(at, span)) * root[:, None], means * root)
    weights[0] += 1e-9 + means.max() * 1e-3
    covariance = _shapes(np.arange(span), span) @ weights
    return np.asarray(covariance[np.abs(places[:, None] - places[None, :])])


def _shapes(lags: Ints, span: int) -> Floats:
    """Correlations at `lags`: of noise that is new in every run, that decays, and that accumulates."""
    decaying = [rate ** lags.astype(np.float64) for rate in _CORRELATIONS]
    return np.stack([(lags == 0).astype(np.float64), *decaying, 1.0 - lags / span], axis=1)


def _half_squares(series: Series) -> tuple[Ints, Floats]:
    """For each pair of sound runs (all, if there is none): their distance, and half the squared change of the mean."""
    runs = np.flatnonzero(series.sound)
    if len(runs) < 2:
        runs = np.arange(len(series))
    order = None if series.groups is None else np.argsort(series.groups, kind="stable")
    starts = None
    if series.groups is not None and order is not None:
        starts = np.flatnonzero(np.diff(series.groups[order], prepend=-1))
    lags, falls, rises, units = [], [], [], []
    for index, run in enumerate(runs[:-1]):
        change = series.scores[runs[index + 1 :]] - series.scores[run]
        seen = np.isfinite(change)
        change = np.where(seen, change, 0.0)
        if order is not None and starts is not None:
            change = np.add.reduceat(change[:, order], starts, axis=1)
        count = np.maximum(seen.sum(axis=1), 1)
        falls.append(np.sum(np.minimum(change, 0.0) ** 2, axis=1) / count**2)
        rises.append(np.sum(np.maximum(change, 0.0) ** 2, axis=1) / count**2)
        units.append(_UNSEEN / (count * (count + 1.0)))
        lags.append(series.places[runs[index + 1 :]] - series.places[run])
    by_lag = np.concatenate(lags)
    share = np.minimum(1.0, _PAIRS / np.bincount(by_lag)[by_lag])
    mixed = share * np.concatenate(falls) + (2.0 - share) * np.concatenate(rises)
    return by_lag, np.asarray((mixed + np.concatenate(units)) / 2.0)


def _precision(covariance: Floats) -> Floats:
    """The inverse of `covariance` for contrasts: whatever the common mean of all runs is."""
    inverse = np.linalg.inv(covariance)
    total = inverse.sum(axis=1)
    return np.asarray(inverse - np.outer(total, total) / total.sum())


def _complete(scores: Floats, before: Ints, after: Ints) -> tuple[Floats, Bools]:
    """The scores in the runs `before` and `after` of the units that both have; a gap is the mean of its side."""
    values = np.concatenate([_filled(scores[before]), _filled(scores[after])])
    kept = np.isfinite(values).all(axis=0)
    return values[:, kept], kept


def _filled(values: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a unit without any score has a mean of NaN
        return np.asarray(np.where(np.isfinite(values), values, np.nanmean(values, axis=0)))
