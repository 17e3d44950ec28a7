"""Joint sign flips and relabellings: the null distribution of several means over the same samples.

If a value is as likely to be +v as -v (the difference of two answers from the same source), flipping signs gives
equally likely data. Flipping all values of a sample together preserves their dependence, so the distribution of the
largest statistic over all hypotheses is right without assuming independence.

Where one side of a pair has more answers than the other, their difference is not symmetric, and signs can't be flipped.
But if all answers to a question come from the same source, it is chance which of them are called the baseline's: moving
the labels round gives equally likely data.

Sources: P. Westfall and S. Young, "Resampling-Based Multiple Testing" (1993), sections 2.3 and 2.6; J. Romano and
M. Wolf, "Exact and approximate stepdown methods for multiple hypothesis testing" (2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRID = 2.0**30
"""Values are rounded to this grid, on which sums of up to a million values in [-2, 2] are exact in any order."""
MAX_BLOCKS = 2048
TAIL = 0.25
_ENUMERATED = 12
_CHUNK = 512


def on_grid(values: Floats) -> Floats:
    """`values` rounded to multiples of 2^-30, so that sums do not depend on their order or the machine."""
    return np.asarray(np.rint(values * GRID) / GRID, dtype=np.float64)


def flipped_sums(totals: Floats, *, draws: int, seed: int) -> Floats:
    """Column sums of `totals` (units, m) under sign flips of whole rows, shape (draws, m); the first is unflipped.

    Up to 12 rows that are not all zero are enumerated in full (2^rows draws); otherwise `draws` flips are random.
    More rows than `MAX_BLOCKS` are first assigned at random to that many blocks. These flips are a subgroup of all
    flips, so the test stays exact.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    live = np.any(totals != 0.0, axis=1)
    count = int(np.count_nonzero(live))
    if count == 0:
        return np.zeros((1, totals.shape[1]))
    rows = _gathered((column[live] for column in totals.T), count, rng) if count > MAX_BLOCKS else totals[live]
    if count <= _ENUMERATED:
        patterns = np.arange(2 ** len(rows))[:, None] >> np.arange(len(rows))
        return np.asarray((1.0 - 2.0 * (patterns & 1)) @ rows)
    whole = rows.sum(axis=0)
    sums = np.empty((draws, rows.shape[1]))
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        sums[start : start + size] = whole - 2.0 * (_bits(rng, size, len(rows)) @ rows)
    sums[0] = whole
    return sums


@dataclass(frozen=True, slots=True)
class Answers:
    """The scores behind paired differences: `now` (n, k) and `then` (n, l) of several answers to each of n questions.

    NaN is an answer without a score. `alike` (n,): the answers of each side are one answer, judged once.
    """

    now: Floats
    then: Floats
    alike: NDArray[np.bool_]

    @property
    def ways(self) -> int:
        """How many equally likely differences there are for each question."""
        return 2 * int(self.now.shape[1] + self.then.shape[1])

    def cut(self, rows: NDArray[np.bool_]) -> Answers:
        """The questions in `rows` (n,)."""
        return Answers(self.now[rows], self.then[rows], self.alike[rows])

    def relabelled(self, bound: float) -> Floats:
        """The differences of the means less `bound`, with the labels moved round (n, ways); the first as observed.

        All answers have one source if the difference is `bound`. Each of the k + l shifts of the labels is there twice,
        so that questions with two ways have each of them equally often: those whose answers are alike, where only the
        sides can change places.
        """
        k = self.now.shape[1]
        both = np.concatenate([self.now - bound, self.then], axis=1)
        shifted = [np.roll(both, shift, axis=1) for shift in range(both.shape[1])]
        ways = np.stack([_mean(one[:, :k]) - _mean(one[:, k:]) for one in shifted], axis=1)
        # A way that leaves one side without a score says nothing.
        found = np.repeat(np.nan_to_num(ways), 2, axis=1)
        found[self.alike] = flips(found[self.alike, 0], self.ways)
        return found


def flips(difference: Floats, ways: int) -> Floats:
    """`difference` (n,) and its negative, each in half of the `ways` columns."""
    return np.asarray(difference[:, None] * np.where(np.arange(ways) % 2, -1.0, 1.0))


def _mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1))


def relabelled_sums(totals: Floats, *, draws: int, seed: int) -> Floats:
    """Column sums (draws, m) of `totals` (units, ways, m), one way drawn for each unit; the first draw has way 0.

    Way 0 is the data; the ways of a unit must be equally likely if nothing changed. More rows than `MAX_BLOCKS` are
    first assigned at random to that many blocks, which share a way.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = totals[np.any(totals != 0.0, axis=(1, 2))]
    if len(rows) == 0:
        return np.zeros((1, totals.shape[2]))
    if len(rows) > MAX_BLOCKS:
        flat = _gathered(rows.reshape(len(rows), -1).T, len(rows), rng)
        rows = flat.reshape(len(flat), *rows.shape[1:])
    drawn = rng.integers(0, rows.shape[1], size=(draws, len(rows)), dtype=np.uint8)
    drawn[0] = 0
    sums = np.zeros((draws, rows.shape[2]))
    for way in range(rows.shape[1]):
        sums += (drawn == way).astype(np.float64) @ rows[:, way, :]
    return sums


def _bits(rng: np.random.Generator, draws: int, units: int) -> Floats:
    width = -(-units // 8)
    packed = np.frombuffer(rng.bytes(draws * width), dtype=np.uint8).reshape(draws, width)
    return np.unpackbits(packed, axis=1, count=units).astype(np.float64)


def _gathered(columns: Iterable[Floats], count: int, rng: np.random.Generator) -> Floats:
    """`count` rows, given as `columns`, summed by random blocks."""
    block = rng.permutation(count) % MAX_BLOCKS
    return np.column_stack([np.bincount(block, weights=column, minlength=MAX_BLOCKS) for column in columns])


def upper_ranks(sums: Floats) -> Floats:
    """For each entry of `sums` (draws, m), the share of its column that is at least as large: p-values in (0, 1].

    Exact in the first row and wherever it is at most `TAIL`; 1 elsewhere, to avoid sorting values that are not needed.
    """
    draws = len(sums)
    ranks = np.ones_like(sums)
    start = draws - math.ceil(TAIL * draws)
    for j, column in enumerate(np.ascontiguousarray(sums.T)):
        top = np.flatnonzero(column >= np.partition(column, start)[start])
        ordered = np.sort(column[top])
        ranks[top, j] = (len(top) - np.searchsorted(ordered, column[top], side="left")) / draws
    ranks[0] = np.count_nonzero(sums >= sums[0], axis=0) / draws
    return np.where(ranks <= TAIL, ranks, np.where(np.arange(draws)[:, None] == 0, ranks, 1.0))
