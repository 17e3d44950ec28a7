"""Intervals for means and proportions. The method is chosen by the shape of the data.

scipy.special is imported only where it is needed, since that takes longer than a small
run. The import of scipy.stats, which gives the same limits (the tests compare them),
takes longer still.
"""

from __future__ import annotations

import math

import numpy as np

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.estimate import Estimate

_DRAWN_WEIGHTS = 1_000_000
"""The number of weights that are drawn for an interval, one for each distinct block in
each draw."""
_MAX_DRAWS = 40_000
_MAX_BLOCKS = 200
"""More independent blocks of values than this are merged at random."""


def mean_interval(
    values: Floats,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Ints | None = None,
) -> Estimate:
    """The interval for the mean of independent `values` (n,) within `bounds`.

    Paired differences take bounds (-1, 1). `groups` (n,) labels related values; groups
    are independent, values within a group are not. If all differences are 0, the width
    is 0. If all values are 0 or 1, the interval is exact binomial. Otherwise it is
    Gaffke's bound, over groups if there are any. Raises ValueError for no values, and
    for values that are not finite or out of bounds.
    """
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    clipped = np.clip(array, *bounds)
    # Not close for NaN either. Rounding errors are clipped.
    if not n or not np.allclose(array, clipped, rtol=0.0, atol=1e-9):
        raise ValueError(f"values must be at least one, finite and within {bounds}")
    estimate = float(np.mean(clipped))
    tail = (1.0 - confidence) / 2.0
    if bounds[0] < 0.0:  # paired differences
        if not np.any(clipped):
            method = "exact: no pair differs"
            return Estimate(0.0, 0.0, 0.0, confidence, method, n)
        # Further differences are presumed to be at most as large as the largest one
        # here, or as half the scale. Differences as large as the whole scale are so
        # rare that allowing for one would double the interval at n = 20, while allowing
        # for none larger than those here would miss rare large changes. Half the scale
        # keeps the coverage in simulated scores (tests/stats/test_intervals.py).
        largest = max(0.5 * bounds[1], float(np.max(np.abs(clipped))))
        bounds = (max(bounds[0], -largest), min(bounds[1], largest))
    elif groups is None and np.isin(clipped, (0.0, 1.0)).all() and bounds[1] == 1.0:
        return proportion_interval(round(clipped.sum()), n, confidence=confidence)
    low, high = _gaffke_limits(clipped, tail, bounds, groups)
    return Estimate(
        estimate,
        min(low, estimate),
        max(high, estimate),
        confidence,
        "Gaffke's bound",
        n,
    )


def _gaffke_limits(
    values: Floats, tail: float, bounds: tuple[float, float], groups: Ints | None
) -> tuple[float, float]:
    """The limits for the mean of `values`. Each misses the mean with at most the
    probability `tail`.

    They are quantiles of the mean of the values and of one more at the bound, with
    random weights that are uniform on the simplex: a Bayesian bootstrap with one extra
    observation. For values of 0 and 1 that is exactly the Clopper–Pearson limit; for
    others no case of undercoverage is known at any n. Sources: N. Gaffke, "Three test
    statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable", Mathematical Methods of Statistics 14 (2005); E. Learned-Miller and P.
    Thomas, "A new confidence interval for the mean of a bounded random variable"
    (2019), section 4.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    labels = np.arange(len(values)) if groups is None else groups
    block_of = np.unique(labels, return_inverse=True)[1]
    totals = np.bincount(block_of, values)
    sizes = np.bincount(block_of).astype(np.float64)
    if len(sizes) > _MAX_BLOCKS:
        merged_block_of = rng.permutation(len(sizes)) % _MAX_BLOCKS
        # Sorted, so that the order of the values does not matter.
        order = np.lexsort((totals, sizes))
        totals = np.bincount(merged_block_of, totals[order])
        sizes = np.bincount(merged_block_of, sizes[order]).astype(np.float64)
    blocks = np.column_stack([totals, sizes])
    distinct, repeats = np.unique(blocks, axis=0, return_counts=True)
    draws = min(_MAX_DRAWS, _DRAWN_WEIGHTS // len(distinct))
    if len(distinct) == len(blocks):
        # A gamma distribution of shape 1: the same numbers in half the time.
        weights = rng.standard_exponential((draws, len(distinct)))
    else:
        weights = rng.standard_gamma(repeats, (draws, len(distinct)))
    # The extra observation is as large as the block of a value that is drawn at random.
    extra = rng.standard_exponential(draws) * float(sizes @ sizes) / len(values)
    sums, counts = (weights @ distinct).T
    low = np.quantile((sums + extra * bounds[0]) / (counts + extra), tail)
    high = np.quantile((sums + extra * bounds[1]) / (counts + extra), 1.0 - tail)
    return float(low), float(high)


def student_interval(
    values: Floats, *, further: int | None = None, confidence: float = 0.95
) -> Estimate:
    """Student's t for the mean of independent `values` (n,): exact for normal values,
    approximate for others.

    With `further`, the interval is for the mean of this many further values of the same
    kind (G. Hahn and W. Meeker, "Statistical Intervals", 1991, section 4.7). It is
    infinite for a single value. With a long right tail, the upper limit is too low more
    often than stated, and the lower limit too high less often.
    """
    n = len(values)
    mean = float(np.mean(values))
    half_width = math.inf
    if n > 1:
        from scipy.special import stdtrit

        error = float(np.std(values, ddof=1)) / math.sqrt(n)
        half_width = float(stdtrit(n - 1, 0.5 + confidence / 2.0)) * error
    if further is not None:
        # The error of both means in standard errors of the first one.
        half_width *= math.sqrt(1.0 + n / further)
    return Estimate(
        mean, mean - half_width, mean + half_width, confidence, "Student's t", n
    )


def proportion_interval(hits: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """The exact (Clopper–Pearson) interval for a proportion of `hits` in `n`
    independent trials.

    Source: C. Clopper and E. Pearson, Biometrika 26 (1934). Covers at least
    `confidence` at any n and any proportion.
    """
    tail = (1.0 - confidence) / 2.0
    if hits in (0, n):
        # The same in closed form.
        limit = tail ** (1.0 / n)
        low, high = (0.0, 1.0 - limit) if hits == 0 else (limit, 1.0)
    else:
        from scipy.special import betaincinv

        low = float(betaincinv(hits, n - hits + 1, tail))
        high = float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return Estimate(hits / n, low, high, confidence, "exact binomial", n)


def p_proportion_at_most(hits: int, n: int, bound: float) -> float:
    """Exact binomial p-value of "the proportion is at most `bound`": P(X >= hits)."""
    if not hits:
        return 1.0
    from scipy.special import bdtrc

    return float(bdtrc(hits - 1, n, bound))
