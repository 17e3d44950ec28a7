"""Intervals for means and proportions. The method is chosen by the shape of the data.

Uses quantiles and tails from scipy.special, where they are needed: its import takes
longer than a small run. Those of scipy.stats give the same limits (the tests compare
them), but take longer still.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.estimate import Estimate, check_confidence

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]

_DRAWN = 1_000_000
"""So many weights are drawn for an interval, in at most _MAX_DRAWS sets of them."""
_MAX_DRAWS = 40_000
_MAX_BLOCKS = 200
"""More independent blocks of values are taken together, at random, in so many."""


def mean_interval(
    values: Floats,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Groups | None = None,
) -> Estimate:
    """The interval for the mean of independent `values` (n,) within `bounds`.

    Paired differences take bounds (-1, 1). `groups` (n,) labels related values; groups
    are independent, values within a group are not. If all differences are 0, the width
    is 0. If all values are 0 or 1, the interval is exact binomial. Otherwise it is
    Gaffke's bound, over groups if there are any. Raises ValueError for values that are
    empty, not finite or out of bounds.
    """
    check_confidence(confidence)
    array = _checked(values, bounds, groups)
    n = len(array)
    estimate = float(np.mean(array))
    if not np.any(array) and bounds[0] < 0.0:
        method = "exact: no pair differs"
        return Estimate(0.0, 0.0, 0.0, confidence, method, n)
    is_binary = bool(np.all((array == 0.0) | (array == 1.0)))
    if is_binary and groups is None and bounds == (0.0, 1.0):
        return proportion_interval(round(array.sum()), n, confidence=confidence)
    tail = (1.0 - confidence) / 2.0
    low, high = _gaffke_limits(array, tail, _reached(array, bounds), groups)
    low = min(low, estimate)
    high = max(high, estimate)
    return Estimate(estimate, low, high, confidence, "Gaffke's bound", n)


def _gaffke_limits(
    values: Floats, tail: float, bounds: tuple[float, float], groups: Groups | None
) -> tuple[float, float]:
    """The limits for the mean of `values`, each of which misses it with at most the
    probability `tail`.

    They are quantiles of the mean of the values with random weights, uniform on the
    simplex, and one more value at the bound: a Bayesian bootstrap with one extra
    observation. For values of 0 and 1 that is exactly the Clopper–Pearson limit; for
    others no case of undercoverage is known at any n. Sources: N. Gaffke, "Three test
    statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable", Mathematical Methods of Statistics 14 (2005); E. Learned-Miller and P.
    Thomas, "A new confidence interval for the mean of a bounded random variable"
    (2019), section 4.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    labels = np.arange(len(values)) if groups is None else groups
    _, block_of = np.unique(labels, return_inverse=True)
    sizes = _sums(block_of, np.ones(len(values)))
    totals = _sums(block_of, values)
    if len(sizes) > _MAX_BLOCKS:
        larger = rng.permutation(len(sizes)) % _MAX_BLOCKS
        order = np.lexsort((totals, sizes))  # that of the values must not matter
        totals = _sums(larger, totals[order])
        sizes = _sums(larger, sizes[order])
    blocks = np.column_stack([totals, sizes])
    distinct, repeats = np.unique(blocks, axis=0, return_counts=True)
    draws = min(_MAX_DRAWS, _DRAWN // len(distinct))
    weights = rng.standard_gamma(repeats, (draws, len(distinct)))
    # The extra observation is as large as the block of a value that is drawn at random.
    extra = rng.standard_exponential(draws) * float(sizes @ sizes) / len(values)
    sums, counts = (weights @ distinct).T
    counts = counts + extra
    low = np.quantile((sums + extra * bounds[0]) / counts, tail)
    high = np.quantile((sums + extra * bounds[1]) / counts, 1.0 - tail)
    return float(low), float(high)


def _sums(block_of: NDArray[np.intp], values: Floats) -> Floats:
    """(blocks,): the sum of the values of each block."""
    return np.asarray(np.bincount(block_of, weights=values), dtype=np.float64)


def _checked(
    values: Floats, bounds: tuple[float, float], groups: Groups | None
) -> Floats:
    """`values` as a float vector. Raises ValueError unless all are finite and within
    `bounds`."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"values must be a vector that is not empty, got shape {array.shape}"
        )
    clipped = np.clip(array, *bounds)
    if not np.allclose(array, clipped, rtol=0.0, atol=1e-9):  # also if one is NaN
        raise ValueError(f"values must be finite and within {bounds}")
    if groups is not None and np.shape(groups) != array.shape:
        raise ValueError(
            f"groups must have one label a value, got {np.shape(groups)} for {array.shape}"
        )
    return clipped


def _reached(array: Floats, bounds: tuple[float, float]) -> tuple[float, float]:
    """The assumed range of unseen values: `bounds`, or for differences the largest
    observed, at least half the scale.

    Differences as large as the whole scale are so rare that allowing for one would
    double the interval at n = 20. Allowing for none beyond the observed ones would miss
    rare large changes. Half the scale keeps the coverage in simulated scores
    (tests/stats/test_intervals.py).
    """
    if bounds[0] >= 0.0:
        return bounds
    half = max(0.5 * bounds[1], float(np.max(np.abs(array))))
    return max(bounds[0], -half), min(bounds[1], half)


def student_interval(values: Floats, *, confidence: float = 0.95) -> Estimate:
    """Student's t for the mean of independent `values` (n,): exact for normal values,
    approximate for others.

    The interval is infinite for a single value. With a long right tail, the upper limit
    is too low more often than stated and the lower limit too high less often. Raises
    ValueError for no values, non-finite values, or a confidence outside (0, 1).
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError("a mean needs at least one value, and finite ones")
    check_confidence(confidence)
    mean = float(np.mean(array))
    method = "Student's t"
    if array.size == 1:
        return Estimate(mean, -math.inf, math.inf, confidence, method, 1)
    from scipy.special import stdtrit

    error = float(np.std(array, ddof=1)) / math.sqrt(array.size)
    reach = float(stdtrit(array.size - 1, 0.5 + confidence / 2.0)) * error
    return Estimate(mean, mean - reach, mean + reach, confidence, method, array.size)


def prediction_interval(
    values: Floats, further: int, *, confidence: float = 0.95
) -> Estimate:
    """Student's interval for the mean of `further` values of the same kind as `values`
    (n,).

    The estimate is the mean of `values`, and the interval is infinite for fewer than
    two. Source: G. Hahn and W. Meeker, "Statistical Intervals" (1991), section 4.7.
    Raises ValueError for no values, non-finite values, no further value, or a
    confidence outside (0, 1).
    """
    mean = student_interval(values, confidence=confidence)
    if further < 1:
        raise ValueError(f"need at least one further value, got {further}")
    # The error of both means in standard errors of the first one.
    reach = (mean.high - mean.estimate) * math.sqrt(1.0 + mean.n / further)
    low = mean.estimate - reach
    high = mean.estimate + reach
    return Estimate(
        mean.estimate, low, high, confidence, "Student's prediction interval", mean.n
    )


def proportion_interval(hits: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """The exact (Clopper–Pearson) interval for a proportion of `hits` in `n`
    independent trials.

    Source: C. Clopper and E. Pearson, Biometrika 26 (1934). Covers at least
    `confidence` at any n and any proportion. Raises ValueError unless 0 <= hits <= n, n
    >= 1 and confidence in (0, 1).
    """
    _check_hits(hits, n)
    check_confidence(confidence)
    tail = (1.0 - confidence) / 2.0
    if hits in (0, n):
        reach = tail ** (1.0 / n)
        low, high = (0.0, 1.0 - reach) if hits == 0 else (reach, 1.0)
        return Estimate(hits / n, low, high, confidence, "exact binomial", n)
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, tail))
    high = float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return Estimate(hits / n, low, high, confidence, "exact binomial", n)


def p_proportion_at_most(hits: int, n: int, bound: float) -> float:
    """Exact binomial p-value of "the proportion is at most `bound`": P(X >= hits)."""
    _check_hits(hits, n)
    if not hits:
        return 1.0
    from scipy.special import bdtrc

    return float(bdtrc(hits - 1, n, bound))


def _check_hits(hits: int, n: int) -> None:
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"need 0 <= hits <= n and n >= 1, got {hits} of {n}")
