"""Joint sign flips: the null distribution of several means over the same samples, and p-values adjusted by it.

If a value is as likely to be +v as -v (the difference of two answers from the same source), flipping signs gives
equally likely data. Flipping all values of a sample together preserves their dependence, so the distribution of the
largest statistic over all hypotheses is right without assuming independence.

Sources: P. Westfall and S. Young, "Resampling-Based Multiple Testing" (1993), sections 2.3 and 2.6; J. Romano and
M. Wolf, "Exact and approximate stepdown methods for multiple hypothesis testing" (2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRID = 2.0**30
"""Values are rounded to this grid, on which sums of up to a million values in [-2, 2] are exact in any order."""
MAX_BLOCKS = 2048
TAIL = 0.25
MAX_ENUMERATED = 12
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
    if count <= MAX_ENUMERATED:
        patterns = np.arange(2 ** len(rows))[:, None] >> np.arange(len(rows))
        return np.asarray((1.0 - 2.0 * (patterns & 1)) @ rows)
    whole = rows.sum(axis=0)
    sums = np.empty((draws, rows.shape[1]))
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        sums[start : start + size] = whole - 2.0 * (_bits(rng, size, len(rows)) @ rows)
    sums[0] = whole
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


def step_down(p: Floats, null: Floats, weights: Floats) -> Floats:
    """Adjust marginal p-values `p` (m,) by weighted step-down min-P over the p-values `null` (draws, m).

    The result never exceeds the weighted Holm adjustment: the null distribution is only used for the dependence between
    hypotheses (P. Westfall and S. Young 1993, algorithm 2.8).
    """
    order = np.argsort(p / weights, kind="stable")
    weighted = (p / weights)[order]
    smallest = np.minimum.accumulate((null / weights)[:, order[::-1]], axis=1)[:, ::-1]
    joint = np.mean(smallest <= weighted * (1.0 + 1e-9), axis=0)
    # Beyond the tail, and below what was drawn, the null p-values are unknown.
    joint[(weighted * weights.max() > TAIL) | (joint == 0.0)] = 1.0
    holm = weighted * np.cumsum(weights[order][::-1])[::-1]
    adjusted = np.maximum.accumulate(np.maximum(p[order], np.minimum(joint, holm)))
    back = np.empty_like(adjusted)
    back[order] = np.minimum(1.0, adjusted)
    return back
