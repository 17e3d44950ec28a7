"""Agreement beyond chance of two raters: Cohen's kappa, and Krippendorff's alpha at
interval level, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.estimate import check_confidence

Floats = NDArray[np.float64]

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Agreement:
    """A coefficient in [-1, 1] with its interval, and the share of units with equal
    ratings.

    `estimate`, `low` and `high` are None if the coefficient is undefined because all
    ratings are the same.
    """

    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    equal: float
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Mean disagreement of a pair of ratings, observed and expected by chance, and the
    maximum over all pairs."""

    observed: float
    expected: float
    widest: float

    @property
    def coefficient(self) -> float | None:
        if self.expected <= 1e-15:
            return None
        return 1.0 - self.observed / self.expected


Measure = Callable[[Floats], Disagreement]
"""Disagreement of the units, weighted by counts (n,)."""


def cohen_kappa(
    first: Floats, second: Floats, *, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Cohen's kappa between two raters' marks `first` and `second` (n,), which are 0 or
    1.

    1 - observed ÷ expected disagreement. Source: J. Cohen, Educational and
    Psychological Measurement 20 (1960). Raises ValueError for different lengths, no
    ratings, or other marks.
    """
    ratings = _checked(first, second)
    if not np.all((ratings == 0.0) | (ratings == 1.0)):
        raise ValueError("marks must be 0 or 1")
    differs = (ratings[0] != ratings[1]).astype(np.float64)

    def measure(counts: Floats) -> Disagreement:
        share_first, share_second = ratings @ counts / counts.sum()
        expected = share_first * (1.0 - share_second) + share_second * (
            1.0 - share_first
        )
        return Disagreement(
            float(differs @ counts / counts.sum()), float(expected), 1.0
        )

    return _with_interval(measure, ratings, confidence, seed, "Cohen's kappa")


def krippendorff_alpha(
    first: Floats, second: Floats, *, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Krippendorff's alpha at interval level of two raters' `first` and `second` (n,),
    none of which is missing.

    1 - observed ÷ expected disagreement, which are mean squared differences. The
    interval resamples units. Source: K. Krippendorff, "Content Analysis" (2004),
    section 11.3. Raises ValueError for different lengths, no ratings, or values that
    are not finite.
    """
    ratings = _checked(first, second)
    centred = ratings - ratings.mean()
    sums = centred.sum(axis=0)
    squares = (centred**2).sum(axis=0)
    differences = (ratings[0] - ratings[1]) ** 2
    widest = float(np.ptp(ratings)) ** 2

    def measure(counts: Floats) -> Disagreement:
        total = 2.0 * float(counts.sum())
        expected = (
            2.0
            * (total * float(counts @ squares) - float(counts @ sums) ** 2)
            / (total - 1.0)
        )
        return Disagreement(
            2.0 * float(counts @ differences) / total, expected / total, widest
        )

    return _with_interval(
        measure, ratings, confidence, seed, "Krippendorff's alpha (interval)"
    )


def _checked(first: Floats, second: Floats) -> Floats:
    a = np.asarray(first, dtype=np.float64)
    b = np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(
            f"two vectors of one length are needed, got {a.shape} and {b.shape}"
        )
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise ValueError("ratings must be finite")
    return np.vstack([a, b])


def _with_interval(
    measure: Measure, ratings: Floats, confidence: float, seed: int, method: str
) -> Agreement:
    check_confidence(confidence)
    n = ratings.shape[1]
    equal = float(np.mean(ratings[0] == ratings[1]))
    whole = measure(np.ones(n))
    if whole.coefficient is None:
        return Agreement(
            None,
            None,
            None,
            confidence,
            equal,
            n,
            f"{method}, not defined: all ratings are the same",
        )
    tail = (1.0 - confidence) / 2.0
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = []
    for _ in range(DRAWS):
        counts = np.bincount(rng.integers(0, n, size=n), minlength=n).astype(np.float64)
        coefficient = measure(counts).coefficient
        if coefficient is not None:
            drawn.append(coefficient)
    low, high = np.quantile(drawn or [1.0], [tail, 1.0 - tail])
    if whole.observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may
        # still disagree (exact binomial).
        low = 1.0 - (1.0 - tail ** (1.0 / n)) * whole.widest / whole.expected
    low = max(-1.0, float(low))
    high = min(1.0, float(high))
    return Agreement(
        whole.coefficient,
        low,
        high,
        confidence,
        equal,
        n,
        f"{method}, bootstrap over units",
    )
