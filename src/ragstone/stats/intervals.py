"""Intervals for the mean of bounded values: one method a situation, chosen from the data's shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.bounded_mean import blocks_of, lower_limit, upper_limit

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A two-sided interval for a mean. `method` is words for a reader; `n_groups` is None without groups."""

    estimate: float
    low: float
    high: float
    confidence: float
    method: str
    n: int
    n_groups: int | None = None


def checked(values: Floats, bounds: tuple[float, float], groups: Groups | None) -> Floats:
    """`values` as a float vector. Raises ValueError for anything but finite values within `bounds`."""
    lo, hi = bounds
    array = np.asarray(values, dtype=np.float64)
    if not lo < hi:
        raise ValueError(f"bounds must rise, got {bounds}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"values must be a vector that is not empty, got shape {array.shape}")
    if not np.all(np.isfinite(array)) or array.min() < lo - 1e-9 or array.max() > hi + 1e-9:
        raise ValueError(f"values must be finite and within {bounds}")
    if groups is not None and np.shape(groups) != array.shape:
        raise ValueError(f"groups must have one label a value, got {np.shape(groups)} for {array.shape}")
    return np.clip(array, lo, hi)


def mean_interval(
    values: Floats,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Groups | None = None,
    seed: int = 0,  # noqa: ARG001 - no method draws at present; callers keep one signature
) -> MeanInterval:
    """The interval for the mean of independent `values` (n,) within `bounds`.

    Paired differences take bounds (-1, 1). `groups` (n,) labels values that belong together; groups are independent,
    values in one are not. Raises ValueError for values that are empty, not finite or out of bounds.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    array = checked(values, bounds, groups)
    blocks = blocks_of(array, groups)
    n_groups = None if groups is None else blocks.n_blocks
    estimate = float(np.mean(array))
    if bounds[0] < 0.0 < bounds[1] and not np.any(array):
        return MeanInterval(0.0, 0.0, 0.0, confidence, "no pair differs", blocks.n, n_groups)
    level = (1.0 - confidence) / 2.0
    low = min(lower_limit(blocks, level, bounds), estimate)
    high = max(upper_limit(blocks, level, bounds), estimate)
    return MeanInterval(estimate, low, high, confidence, _words(array, bounds, groups), blocks.n, n_groups)


def _words(array: Floats, bounds: tuple[float, float], groups: Groups | None) -> str:
    if groups is not None:
        return "Gaffke's bound over groups"
    if np.all((array == bounds[0]) | (array == bounds[1])):
        return "exact binomial"
    return "Gaffke's bound"
