"""Exact-style inference for the mean of bounded values: Gaffke's bound.

The upper limit for the mean of values in [lo, hi] is a quantile of Σ D_i x_i + D_0 hi,
with (D_0, D_1, …, D_n) uniform on the simplex: a Bayesian bootstrap with one extra
observation at the far bound. For values of 0 and 1 it is exactly the Clopper–Pearson
limit. For other bounded values, no case of undercoverage is known at any n.

Sources: N. Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on
the mean of a nonnegative variable", Mathematical Methods of Statistics 14 (2005); E.
Learned-Miller and P. Thomas, "A new confidence interval for the mean of a bounded
random variable" (2019), section 4; tail probabilities after R. Lugannani and S. Rice
(1980) in the form of O. Barndorff-Nielsen (1986), equation 1.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.normal import normal_cdf, normal_quantile
from ragstone.stats.root import root_between

Floats = NDArray[np.float64]
_STEPS = 80
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Blocks:
    """Values summed by independent block (a sample, or a group of related samples).
    Equal blocks are merged."""

    totals: Floats
    """(k,): the sums of their values."""
    sizes: Floats
    """(k,): the numbers of values per block."""
    counts: Floats
    """(k,): the numbers of equal blocks."""
    n: int
    """The number of values."""
    n_blocks: int
    """The number of blocks."""

    @property
    def typical_size(self) -> float:
        """Expected size of the block that contains a randomly drawn value."""
        return float(np.sum(self.counts * self.sizes**2) / self.n)


def blocks_of(values: Floats, groups: NDArray[np.int64] | None) -> Blocks:
    """Sum `values` (n,) by group. Equal blocks are merged, so values with many ties are
    cheap."""
    if groups is None:
        distinct, counts = np.unique(values, return_counts=True)
        return Blocks(
            distinct,
            np.ones_like(distinct),
            counts.astype(np.float64),
            len(values),
            len(values),
        )
    _, index = np.unique(groups, return_inverse=True)
    sizes = np.bincount(index).astype(np.float64)
    totals = np.bincount(index, weights=values)
    pairs, repeats = np.unique(
        np.column_stack([totals, sizes]), axis=0, return_counts=True
    )
    return Blocks(
        pairs[:, 0], pairs[:, 1], repeats.astype(np.float64), len(values), len(sizes)
    )


def positive_probability(weights: Floats, counts: Floats) -> float:
    """P(Σ a_k G_k > 0) for independent G_k ~ Gamma(c_k, 1), by saddlepoint
    approximation.

    `weights` a and `counts` c have shape (k,); c may contain zeros. The error is below
    0.002 for six or more terms, and below 1 % of the tail for small tails. All a <= 0
    gives 0, all a >= 0 (one of them > 0) gives 1, all 0 gives 1.
    """
    live = counts > 0
    weights = weights[live]
    counts = counts[live]
    if weights.min() >= -_TINY:
        return 1.0
    if weights.max() <= _TINY:
        return 0.0
    return _saddlepoint(weights / np.abs(weights).max(), counts)


def _saddlepoint(a: Floats, c: Floats) -> float:
    # K(s) = -Σ c log(1 - s a) is convex on (1/min a, 1/max a), and its slope takes
    # every real value there.
    low = 1.0 / float(a.min())
    high = 1.0 / float(a.max())
    s = 0.0
    for _ in range(_STEPS):
        ratio = a / (1.0 - s * a)
        slope = float(c @ ratio)
        curve = float(c @ (ratio * ratio))
        if slope < 0.0:
            low = s
        else:
            high = s
        before = s
        s = s - slope / curve
        if not low < s < high:
            s = 0.5 * (low + high)
        if abs(s - before) <= 1e-9 * (1e-3 + abs(before)):
            break
    one_less = 1.0 - s * a
    k0 = -float(c @ np.log(one_less))
    k2 = float(c @ (a / one_less) ** 2)
    w = math.copysign(math.sqrt(max(-2.0 * k0, 0.0)), s)
    if abs(w) < 1e-4:
        skew = 2.0 * float(c @ a**3) / float(c @ a**2) ** 1.5
        return normal_cdf(-skew / 6.0 - w)
    return normal_cdf(-w - math.log(s * math.sqrt(k2) / w) / w)


def p_mean_at_least(blocks: Blocks, bound: float, bounds: tuple[float, float]) -> float:
    """P-value in [0, 1] of "the mean is at least `bound`"; a small one is evidence that
    it is lower."""
    lo, hi = bounds
    if bound <= lo:
        return 1.0
    exact = _binary(blocks, bounds)
    if exact is not None:
        ones, n = exact
        share = (bound - lo) / (hi - lo)
        if ones == n:
            return 1.0
        if share >= 1.0:
            return 0.0
        if ones == 0:
            return float((1.0 - share) ** n)
        from scipy.special import betainc

        return float(1.0 - betainc(ones + 1, n - ones, share))
    return _p_between(blocks, bound, hi)


def _p_between(blocks: Blocks, bound: float, hi: float) -> float:
    """The p-value of "the mean is at least `bound`" where values lie between the
    bounds, and below `hi`."""
    a = np.append(
        blocks.totals - blocks.sizes * bound, blocks.typical_size * (hi - bound)
    )
    return positive_probability(a, np.append(blocks.counts, 1.0))


def mirrored(blocks: Blocks) -> Blocks:
    """The blocks of the negated values."""
    return Blocks(
        -blocks.totals, blocks.sizes, blocks.counts, blocks.n, blocks.n_blocks
    )


def upper_limit(blocks: Blocks, level: float, bounds: tuple[float, float]) -> float:
    """One-sided upper limit at confidence 1 - `level`: the bound at which
    `p_mean_at_least` equals `level`."""
    lo, hi = bounds
    exact = _binary(blocks, bounds)
    if exact is not None:
        ones, n = exact
        if ones == n:
            return hi
        if ones == 0:
            return float(hi - (hi - lo) * level ** (1.0 / n))
        from scipy.special import betaincinv

        return lo + (hi - lo) * float(betaincinv(ones + 1, n - ones, 1.0 - level))
    mean = max(lo, float(np.sum(blocks.totals * blocks.counts)) / blocks.n)
    if mean >= hi:
        return hi
    target = normal_quantile(level)

    # On the normal scale the p-value is almost linear in the bound, so few steps are
    # needed.
    @cache
    def excess(bound: float) -> float:
        return (
            normal_quantile(
                min(max(_p_between(blocks, bound, hi), 1e-300), 1.0 - 1e-16)
            )
            - target
        )

    squares = float(np.sum(blocks.counts * (blocks.totals - blocks.sizes * mean) ** 2))
    guess = (
        mean
        - 1.5 * target * math.sqrt(squares) / blocks.n
        + 4.0 * blocks.typical_size * (hi - mean) / blocks.n
    )
    if guess < hi and excess(guess) < 0.0:
        return root_between(excess, mean, guess, tolerance=1e-8)
    if excess(hi) >= 0.0:
        return hi
    return root_between(excess, mean, hi, tolerance=1e-8)


def lower_limit(blocks: Blocks, level: float, bounds: tuple[float, float]) -> float:
    """One-sided lower limit at confidence 1 - `level`."""
    return -upper_limit(mirrored(blocks), level, (-bounds[1], -bounds[0]))


def _binary(blocks: Blocks, bounds: tuple[float, float]) -> tuple[int, int] | None:
    lo, hi = bounds
    if np.any(blocks.sizes != 1.0) or not np.all(
        (blocks.totals == lo) | (blocks.totals == hi)
    ):
        return None
    return round(float(np.sum(blocks.counts[blocks.totals == hi]))), blocks.n
