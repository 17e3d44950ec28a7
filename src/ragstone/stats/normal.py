"""The standard normal distribution by the standard library: importing scipy takes
longer than a small gate."""

from __future__ import annotations

import math
from statistics import NormalDist

_STANDARD = NormalDist()
_ROOT_2 = math.sqrt(2.0)


def normal_cdf(z: float) -> float:
    """P(Z <= z), also far below zero, where it is tiny."""
    return 0.5 * math.erfc(-z / _ROOT_2)


def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = `p`; infinite for 0 and 1. Raises ValueError for `p`
    outside [0, 1]."""
    if p in (0.0, 1.0):
        if p == 0.0:
            return -math.inf
        return math.inf
    return _STANDARD.inv_cdf(p)
