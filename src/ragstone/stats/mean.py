"""An interval for the mean of values without a known bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class StudentInterval:
    """A mean and its interval, in the unit of the values; the interval is infinite for a single value."""

    estimate: float
    low: float
    high: float
    confidence: float


def student_interval(values: NDArray[np.float64], *, confidence: float = 0.95) -> StudentInterval:
    """Student's t for the mean of independent `values` (n,): exact for normal values, approximate for others.

    With a long right tail, the upper limit is too low more often than stated and the lower limit too high less often.
    Raises ValueError for no values, non-finite values, or a confidence outside (0, 1).
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size == 0 or not np.all(np.isfinite(found)):
        raise ValueError("a mean needs at least one value, and finite ones")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    mean = float(np.mean(found))
    if found.size == 1:
        return StudentInterval(mean, -math.inf, math.inf, confidence)
    error = float(np.std(found, ddof=1)) / math.sqrt(found.size)
    reach = float(stdtrit(found.size - 1, 0.5 + confidence / 2.0)) * error
    return StudentInterval(mean, mean - reach, mean + reach, confidence)
