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


Disagreement = Callable[[Floats], tuple[float, float]]
"""The mean disagreement of a pair of ratings, observed and expected by chance, of
ratings (2, n)."""


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
    return _with_interval(_of_marks, ratings, confidence, seed, "Cohen's kappa")


def _of_marks(ratings: Floats) -> tuple[float, float]:
    share_first, share_second = ratings.mean(axis=1)
    expected = share_first * (1.0 - share_second) + share_second * (1.0 - share_first)
    return float(np.mean(ratings[0] != ratings[1])), float(expected)


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
    method = "Krippendorff's alpha (interval)"
    return _with_interval(_of_numbers, ratings, confidence, seed, method)


def _of_numbers(ratings: Floats) -> tuple[float, float]:
    observed = np.mean((ratings[0] - ratings[1]) ** 2)
    return float(observed), 2.0 * float(np.var(ratings, ddof=1))


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
    disagreement: Disagreement,
    ratings: Floats,
    confidence: float,
    seed: int,
    method: str,
) -> Agreement:
    check_confidence(confidence)
    n = ratings.shape[1]
    equal = float(np.mean(ratings[0] == ratings[1]))
    observed, expected = disagreement(ratings)
    if expected <= 1e-15:
        undefined = f"{method}, not defined: all ratings are the same"
        return Agreement(None, None, None, confidence, equal, n, undefined)
    tail = (1.0 - confidence) / 2.0
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = []
    for _ in range(DRAWS):
        observed_again, expected_again = disagreement(ratings[:, rng.integers(0, n, n)])
        if expected_again > 1e-15:
            drawn.append(1.0 - observed_again / expected_again)
    low, high = np.quantile(drawn or [1.0], [tail, 1.0 - tail])
    if observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may
        # still disagree (exact binomial), by the range of the ratings.
        low = 1.0 - (1.0 - tail ** (1.0 / n)) * np.ptp(ratings) ** 2 / expected
    return Agreement(
        1.0 - observed / expected,
        max(-1.0, float(low)),
        min(1.0, float(high)),
        confidence,
        equal,
        n,
        f"{method}, bootstrap over units",
    )
