"""Agreement beyond chance of two raters: Cohen's kappa, and Krippendorff's alpha at
interval level, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


Disagreement = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""The mean disagreement of a pair of ratings, observed and expected by chance, of the
ratings (..., n) of two raters."""


def cohen_kappa(
    first: Floats, second: Floats, *, confidence: float = 0.95
) -> Agreement:
    """Cohen's kappa between two raters' marks `first` and `second` (n,), which are 0 or
    1.

    1 - observed ÷ expected disagreement. Source: J. Cohen, Educational and
    Psychological Measurement 20 (1960). Raises ValueError for different lengths, no
    ratings, or other marks.
    """
    if not np.isin(np.concatenate([first, second]), (0.0, 1.0)).all():
        raise ValueError("marks must be 0 or 1")
    return _with_interval(_of_marks, first, second, confidence, "Cohen's kappa")


def _of_marks(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    share_first = first.mean(axis=-1)
    share_second = second.mean(axis=-1)
    expected = share_first * (1.0 - share_second) + share_second * (1.0 - share_first)
    return np.mean(first != second, axis=-1), expected


def krippendorff_alpha(
    first: Floats, second: Floats, *, confidence: float = 0.95
) -> Agreement:
    """Krippendorff's alpha at interval level of two raters' `first` and `second` (n,),
    none of which is missing.

    1 - observed ÷ expected disagreement, which are mean squared differences. The
    interval resamples units. Source: K. Krippendorff, "Content Analysis" (2004),
    section 11.3. Raises ValueError for different lengths, no ratings, or values that
    are not finite.
    """
    method = "Krippendorff's alpha (interval)"
    return _with_interval(_of_numbers, first, second, confidence, method)


def _of_numbers(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    both = np.concatenate([first, second], axis=-1)
    return np.mean((first - second) ** 2, axis=-1), 2.0 * both.var(axis=-1, ddof=1)


def _with_interval(
    disagreement: Disagreement,
    first: Floats,
    second: Floats,
    confidence: float,
    method: str,
) -> Agreement:
    n = len(first)
    if not n or first.shape != second.shape:
        raise ValueError(
            f"two vectors of one length are needed, got {first.shape} and {second.shape}"
        )
    if not np.isfinite(first + second).all():
        raise ValueError("ratings must be finite")
    equal = float(np.mean(first == second))
    observed, expected = map(float, disagreement(first, second))
    if expected <= 1e-15:
        undefined = f"{method}, not defined: all ratings are the same"
        return Agreement(None, None, None, confidence, equal, n, undefined)
    tail = (1.0 - confidence) / 2.0
    units = np.random.Generator(np.random.PCG64(0)).integers(0, n, (DRAWS, n))
    observed_again, expected_again = disagreement(first[units], second[units])
    defined = expected_again > 1e-15
    drawn = 1.0 - observed_again[defined] / expected_again[defined]
    low, high = np.quantile(drawn if len(drawn) else [1.0], [tail, 1.0 - tail])
    if observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may
        # still disagree (exact binomial), by the range of the ratings.
        low = 1.0 - (1.0 - tail ** (1.0 / n)) * np.ptp([first, second]) ** 2 / expected
    return Agreement(
        1.0 - observed / expected,
        max(-1.0, float(low)),
        min(1.0, float(high)),
        confidence,
        equal,
        n,
        f"{method}, bootstrap over units",
    )
