"""Decides which of several means fell, on these questions.

A change counts as a loss only if two explanations without one are both unlikely:

- *Chance which questions succeed.* If a change is as likely to help a question as to harm it, each difference is as
  likely to be +d as -d: the sum of the differences is compared with its distribution under sign flips. A neutral
  reshuffle of which questions succeed is then no loss. The overall means share their flips, so that correlated metrics
  cost little (step-down min-P: P. Westfall and S. Young, "Resampling-Based Multiple Testing", 1993, algorithm 2.8). Of
  a part of the questions there may be too few for signs alone: it is compared with parts of the same size, drawn at
  random from all questions, with random signs.
- *Noise of system and judge.* If all scores of a question come from one source, it is chance which of them are called
  the newest: the sum is compared with its distribution when the labels move round (each question's scores, in the order
  in which they were made, shifted in a circle). Of one score before and one now, the signs have said it all.

The p-value of a change is the larger of the two. Beside the metrics, their mean is looked at, with twice the weight of
one of them: most losses show in several. What the mean shows is shown of each metric that fell.

Tails are enumerated if few questions changed, else drawn; where draws do not reach, and for parts, they are computed by
saddlepoint (R. Lugannani and S. Rice 1980, in the form of O. Barndorff-Nielsen 1986), on the safe side of the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.normal import normal_cdf
from ragstone.stats.signflip import MAX_BLOCKS, MAX_ENUMERATED, flipped_sums, on_grid, step_down, upper_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DRAWS = 4096
_SIGNS = 2
"""Columns for a difference and its negative."""
_MAX_COLUMNS = 256
_RESOLVED = 40
"""A share of fewer draws than this is computed instead."""
MEAN_WEIGHT = 2.0
"""Weight of the mean over the metrics, relative to one of them."""
PARTS_SHARE = 1.0 / 7.0
"""The share of the error rate that goes to the parts, if there are any: all together weigh as much as one of four
metrics and their mean. This and the weight of the mean were chosen with `bench/losses.py`."""
MAX_ROWS = 20_000
"""Of more questions than this, the labels of single answers are not moved round, only those of the two sides."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one metric: `now` (n, k) and `then` (n, l) are the scores of n questions, NaN where there is none.

    More is better. `units` (n,) are indices of questions, shared by all changes. `alike` (n,): the answers now are one
    answer that was given several times. `expected` is the change that counts as none, at most 0. `part`: these are some
    of the questions, and `whole` is the change of all that have the metric, if it is known.
    """

    units: Ints
    now: Floats
    then: Floats
    alike: Bools
    expected: float = 0.0
    part: bool = False
    whole: Change | None = None

    @property
    def values(self) -> Floats:
        """(n,): the mean now minus the mean then, of each question; 0 if they are equal but for rounding."""
        return on_grid(row_means(self.now) - row_means(self.then))

    @property
    def columns(self) -> int:
        """The smallest number of columns in which the scores of each question can be moved round, or change sides."""
        each = self.now.shape[1] + self.then.shape[1]
        return _SIGNS if each == _SIGNS or len(self.units) > MAX_ROWS else 2 * each

    def ways(self, columns: int) -> Floats:
        """(n, columns): the differences less `expected` that are equally likely if nothing changed; first as observed.

        `columns` is a multiple of `self.columns`. A difference between one answer and equal scores can only change its
        sign; so can all of too many questions.
        """
        k, single = self.now.shape[1], self.values - self.expected
        signs = single[:, None] * np.where(np.arange(columns) % 2, -1.0, 1.0)
        if self.columns == _SIGNS:
            return np.asarray(signs)
        both = np.concatenate([self.now - self.expected, self.then], axis=1)
        shifts = [np.roll(both, shift, axis=1) for shift in range(both.shape[1])]
        moved = np.stack([row_means(one[:, :k]) - row_means(one[:, k:]) for one in shifts], axis=1)
        # A way that leaves one side without a score says nothing.
        found = np.repeat(np.nan_to_num(moved), columns // both.shape[1], axis=1)
        fixed = self.alike & (np.nanmax(self.then, axis=1) == np.nanmin(self.then, axis=1))
        return np.where(fixed[:, None], signs, found)


def row_means(values: Floats) -> Floats:
    """The means (n,) of the rows of `values` (n, k), without missing values; NaN for a row without any."""
    if values.shape[1] == 1:
        return values[:, 0]
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1))


def p_values(changes: Sequence[Change], *, groups: Ints | None = None, seed: int = 0) -> Floats:
    """(m,): for each change the p-value of "no loss", adjusted over all of them; 1 where nothing got worse.

    `groups` labels the units (by index): related questions, which change together. A small value of a whole metric can
    come from the mean over all of them.
    """
    found = np.ones(len(changes))
    whole = [index for index, one in enumerate(changes) if not one.part]
    parts = [index for index, one in enumerate(changes) if one.part]
    if whole:
        share = 1.0 - PARTS_SHARE if parts else 1.0
        found[whole] = np.minimum(1.0, _of_wholes([changes[i] for i in whole], groups, seed) / share)
    share = PARTS_SHARE if whole else 1.0
    for index in parts:
        found[index] = min(1.0, _of_part(changes[index], groups, share / len(parts)) * len(parts) / share)
    return found


def _of_wholes(changes: Sequence[Change], groups: Ints | None, seed: int) -> Floats:
    """(m,): p-values adjusted over the changes and their mean."""
    columns = math.lcm(*(one.columns for one in changes))
    columns = columns if columns <= _MAX_COLUMNS else _SIGNS
    rows = _rows(changes, groups)
    if (top := max(int(row.max()) for row in rows)) >= MAX_ROWS:
        # Questions in random blocks change signs together: fewer flips, all of them equally likely.
        block = np.random.Generator(np.random.PCG64(seed)).permutation(top + 1) % MAX_BLOCKS
        rows = [block[row] for row in rows]
    totals = np.zeros((int(max(r.max() for r in rows)) + 1, columns, len(changes)))
    most = max(map(len, rows))  # means, times this: of many questions a mean moves by less than the grid
    for j, (one, row) in enumerate(zip(changes, rows, strict=True)):
        ways = one.ways(columns) if columns > _SIGNS else _signed(one.values - one.expected)
        for way in range(columns):
            totals[:, way, j] = np.bincount(row, weights=ways[:, way] * (most / len(row)), minlength=len(totals))
    totals = on_grid(totals)
    weights = np.ones(len(changes))
    if len(changes) > 1:
        totals = np.concatenate([totals, totals.mean(axis=2, keepdims=True)], axis=2)
        weights = np.append(weights, MEAN_WEIGHT)
    changed = np.any(totals[:, 0] != 0.0, axis=0)
    p, adjusted = np.ones(len(weights)), np.ones(len(weights))
    if not np.any(changed):
        return adjusted[: len(changes)]
    totals, observed = totals[:, :, changed], totals[:, 0, changed].sum(axis=0)
    sums = flipped_sums(totals[:, 0], draws=DRAWS, seed=seed)
    few = np.count_nonzero(np.any(totals[:, 0] != 0.0, axis=1)) <= MAX_ENUMERATED
    null = upper_ranks(-sums)
    p = null[0].copy()
    for j, total in enumerate(observed):
        if total >= 0.0:
            p[j] = 1.0
            continue
        if not few and p[j] * DRAWS < _RESOLVED:
            p[j] = lower_tail(_signed(totals[:, 0, j]), total)
        if columns > _SIGNS:
            p[j] = max(p[j], lower_tail(totals[:, :, j], total))
    adjusted[changed] = step_down(p, null, weights[changed])
    if len(changes) == 1:
        return adjusted
    fell = np.array([float(one.values.mean()) < one.expected for one in changes])
    return np.where(fell, np.minimum(adjusted[:-1], adjusted[-1]), 1.0)


def _of_part(one: Change, groups: Ints | None, enough: float) -> float:
    """The p-value of a part, not adjusted; from `enough` on, anything that is no larger than it."""
    values = one.values - one.expected
    observed = float(values.sum())
    if observed >= 0.0:
        return 1.0
    (row,) = _rows([one], groups)
    if one.whole is None:
        drawn = lower_tail(_signed(np.bincount(row, weights=values)), observed)
    else:
        (everywhere,) = _rows([one.whole], groups)
        totals = np.bincount(everywhere, weights=one.whole.values - one.expected)
        drawn = lower_tail(_signed(totals).reshape(1, -1), observed, copies=len(np.unique(row)))
    if one.columns == _SIGNS or drawn >= enough:
        return drawn
    ways = one.ways(one.columns)
    moved = np.stack([np.bincount(row, weights=ways[:, way]) for way in range(ways.shape[1])], axis=1)
    return max(drawn, lower_tail(np.asarray(moved, dtype=np.float64), observed))


def _rows(changes: Sequence[Change], groups: Ints | None) -> list[Ints]:
    """For each change the rows of its questions: those that change together share one; numbered without gaps."""
    labels = [one.units if groups is None else groups[one.units] for one in changes]
    _, index = np.unique(np.concatenate(labels), return_inverse=True)
    ends = np.cumsum([len(each) for each in labels])
    return [np.asarray(index[end - len(each) : end]) for each, end in zip(labels, ends, strict=True)]


def _signed(values: NDArray[Any]) -> Floats:
    return np.stack([values, -values], axis=1).astype(np.float64)


def lower_tail(ways: Floats, observed: float, *, copies: int = 1) -> float:
    """P(S <= `observed`) for the sum S of one of `ways` (rows, w) from each row, all equally likely; in (0, 1].

    Each row counts `copies` times, independently. Computed by saddlepoint, half a step of the lattice on the safe side;
    exact at the smallest possible sum.
    """
    ways = ways[np.any(ways != ways[:, :1], axis=1)] if copies == 1 else ways
    if not ways.size or np.ptp(ways) == 0.0:
        return 1.0
    smallest = ways.min(axis=1, keepdims=True)
    if observed <= copies * float(smallest.sum()) + _EXACT:
        return float(np.exp(copies * np.sum(np.log(np.mean(ways <= smallest + _EXACT, axis=1)))))
    gaps = np.diff(np.sort(ways, axis=1), axis=1)
    target = observed + float(gaps[gaps > _EXACT].min()) / 2.0
    mean = copies * float(ways.mean(axis=1).sum())
    sd = math.sqrt(copies * float(ways.var(axis=1).sum()))
    if target >= mean - 1e-3 * sd:
        return normal_cdf((target - mean) / sd)

    def moments(t: float) -> tuple[float, float, float]:
        """K(t), K'(t) and K''(t) of the cumulant generating function K."""
        exponent = t * (ways - smallest)
        weight = np.exp(exponent)
        total = weight.mean(axis=1)
        first = (weight * ways).mean(axis=1) / total
        second = (weight * ways**2).mean(axis=1) / total - first**2
        k = np.log(total).sum() + t * smallest.sum()
        return copies * float(k), copies * float(first.sum()), copies * float(second.sum())

    low, t = -1.0 / sd, -1.0 / sd
    while moments(low)[1] > target:
        low *= 2.0
    high = 0.0
    for _ in range(_STEPS):
        _, slope, curve = moments(t)
        low, high = (t, high) if slope < target else (low, t)
        step = t - (slope - target) / curve if curve > 0.0 else low
        following = step if low < step < high else (low + high) / 2.0
        if abs(following - t) <= 1e-9 * abs(t):
            break
        t = following
    k, _, curve = moments(t)
    w = -math.sqrt(max(0.0, 2.0 * (t * target - k)))
    u = t * math.sqrt(curve)
    return normal_cdf(w + math.log(u / w) / w) if w < -1e-4 else 0.5


_EXACT = 1e-9
_STEPS = 60
