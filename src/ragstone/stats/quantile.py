"""A quantile with an interval from order statistics."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ragstone.stats.estimate import Estimate


def quantile_interval(values: NDArray[np.float64], q: float, *, confidence: float = 0.95) -> Estimate:
    """The `q` quantile of independent `values` (n,) from any distribution, with or without ties.

    The estimate is the smallest value that at least a share q of the values does not exceed (never an average of two).
    The limits are order statistics whose ranks are binomial quantiles; each side misses with probability at most
    (1 - confidence) / 2, and is infinite if there are too few values. Source:
    H. David and H. Nagaraja, "Order Statistics" (2003), section 7.1.
    Raises ValueError for no values, non-finite values, or q or confidence outside (0, 1).
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if n == 0 or not np.all(np.isfinite(ordered)):
        raise ValueError("a quantile needs at least one value, and finite ones")
    if not 0.0 < q < 1.0 or not 0.0 < confidence < 1.0:
        raise ValueError(f"q and confidence must be in (0, 1), got {q} and {confidence}")
    tail = (1.0 - confidence) / 2.0
    lower_rank = _last_rank_below(n, q, tail)
    upper_rank = n + 1 - _last_rank_below(n, 1.0 - q, tail)
    estimate = float(ordered[max(0, math.ceil(n * q - 1e-9) - 1)])
    low = float(ordered[lower_rank - 1]) if lower_rank >= 1 else -math.inf
    high = float(ordered[upper_rank - 1]) if upper_rank <= n else math.inf
    return Estimate(estimate, low, high, confidence, "order statistics", n)


def _last_rank_below(n: int, q: float, tail: float) -> int:
    """The largest rank r with P(X_(r) > quantile) = P(Binomial(n, q) < r) <= tail; 0 if there is none."""
    return int(np.count_nonzero(bdtr(np.arange(n), n, q) <= tail))
