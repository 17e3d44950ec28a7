"""An interval for the mean of values without a known bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ragstone.stats.estimate import Estimate, check_confidence

_METHOD = "Student's t"


def student_interval(values: NDArray[np.float64], *, confidence: float = 0.95) -> Estimate:
    """Student's t for the mean of independent `values` (n,): exact for normal values, approximate for others.

    The interval is infinite for a single value. With a long right tail, the upper limit is too low more often than
    stated and the lower limit too high less often.
    Raises ValueError for no values, non-finite values, or a confidence outside (0, 1).
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size == 0 or not np.all(np.isfinite(found)):
        raise ValueError("a mean needs at least one value, and finite ones")
    check_confidence(confidence)
    mean = float(np.mean(found))
    if found.size == 1:
        return Estimate(mean, -math.inf, math.inf, confidence, _METHOD, 1)
    error = float(np.std(found, ddof=1)) / math.sqrt(found.size)
    reach = float(stdtrit(found.size - 1, 0.5 + confidence / 2.0)) * error
    return Estimate(mean, mean - reach, mean + reach, confidence, _METHOD, found.size)
