"""Intervals for the mean of bounded values. The method is chosen by the shape of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.bounded_mean import blocks_of, lower_limit, upper_limit
from ragstone.stats.estimate import Estimate, check_confidence

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]


def checked(values: Floats, bounds: tuple[float, float], groups: Groups | None) -> Floats:
    """`values` as a float vector. Raises ValueError unless all are finite and within `bounds`."""
    lo, hi = bounds
    array = np.asarray(values, dtype=np.float64)
    if not lo < hi:
        raise ValueError(f"bounds must rise, got {bounds}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"values must be a vector that is not empty, got shape {array.shape}")
    least, most = array.min(), array.max()
    if not (lo - 1e-9 <= least and most <= hi + 1e-9):  # also if one is NaN
        raise ValueError(f"values must be finite and within {bounds}")
    if groups is not None and np.shape(groups) != array.shape:
        raise ValueError(f"groups must have one label a value, got {np.shape(groups)} for {array.shape}")
    return array if lo <= least and most <= hi else np.clip(array, lo, hi)


def mean_interval(
    values: Floats,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Groups | None = None,
) -> Estimate:
    """The interval for the mean of independent `values` (n,) within `bounds`.

    Paired differences take bounds (-1, 1). `groups` (n,) labels related values; groups are independent, values within a
    group are not. If all differences are 0, the width is 0. If all values are at a bound, the interval is exact
    binomial. Otherwise it is Gaffke's bound, over groups if there are any.
    Raises ValueError for values that are empty, not finite or out of bounds.
    """
    check_confidence(confidence)
    array = checked(values, bounds, groups)
    blocks = blocks_of(array, groups)
    n_groups = None if groups is None else blocks.n_blocks
    estimate = float(np.mean(array))
    if is_paired(bounds) and not np.any(array):
        return Estimate(0.0, 0.0, 0.0, confidence, "exact: no pair differs", blocks.n, n_groups)
    level = (1.0 - confidence) / 2.0
    reach = reached(array, bounds)
    low = min(lower_limit(blocks, level, reach), estimate)
    high = max(upper_limit(blocks, level, reach), estimate)
    return Estimate(estimate, low, high, confidence, _words(array, bounds, groups), blocks.n, n_groups)


def is_paired(bounds: tuple[float, float]) -> bool:
    """Whether values within `bounds` are differences, for which 0 means "unchanged"."""
    return bounds[0] < 0.0 < bounds[1]


def reached(array: Floats, bounds: tuple[float, float]) -> tuple[float, float]:
    """The assumed range of unseen values: `bounds`, or for differences the largest observed, at least half the scale.

    Differences as large as the whole scale are so rare that allowing for one would double the interval at n = 20.
    Allowing for none beyond the observed ones would miss rare large changes. Half the scale keeps the coverage in every
    family of `bench/gate_error_rates.py`.
    """
    if not is_paired(bounds):
        return bounds
    half = max(0.5 * max(-bounds[0], bounds[1]), float(np.max(np.abs(array))))
    return max(bounds[0], -half), min(bounds[1], half)


def _words(array: Floats, bounds: tuple[float, float], groups: Groups | None) -> str:
    what = "paired differences" if is_paired(bounds) else "bounded values"
    if groups is not None:
        return f"Gaffke's bound for {what}, by group"
    if not is_paired(bounds) and np.all((array == bounds[0]) | (array == bounds[1])):
        return "exact binomial (Clopper-Pearson)"
    return f"Gaffke's bound for {what}"
