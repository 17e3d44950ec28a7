"""Inter-rater agreement beyond chance: kappas of Cohen and Fleiss, Krippendorff's alpha; bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.estimate import check_confidence

Floats = NDArray[np.float64]
Weights = Literal["none", "linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval"]

DRAWS = 2000
MAX_CATEGORIES = 256


@dataclass(frozen=True, slots=True)
class Agreement:
    """A coefficient in [-1, 1] with its interval, and the share of rating pairs that are equal.

    `estimate`, `low` and `high` are None if the coefficient is undefined because all ratings are the same.
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
    """Mean disagreement of a pair of ratings, observed and expected by chance, and the maximum over all pairs."""

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
    first: Floats, second: Floats, *, weights: Weights = "none", confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Cohen's kappa between two raters' categories `first` and `second` (n,), 1 - Σ w o ÷ Σ w e.

    `weights`: disagreements count equally, or by the (squared) distance between the ranks of the categories in use.
    Sources: J. Cohen, Educational and Psychological Measurement 20 (1960); Psychological Bulletin 70 (1968).
    Raises ValueError for different lengths, no ratings, non-finite values, or more than 256 categories.
    """
    a = np.asarray(first, dtype=np.float64)
    b = np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"two vectors of one length are needed, got {a.shape} and {b.shape}")
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise ValueError("ratings must be finite")
    categories, codes = _codes(np.concatenate([a, b]))
    k = len(categories)
    cells = codes[: len(a)] * k + codes[len(a) :]
    distance = _rank_distance(k, weights)

    def measure(counts: Floats) -> Disagreement:
        table = np.bincount(cells, weights=counts, minlength=k * k).reshape(k, k) / counts.sum()
        expected = float(np.sum(distance * np.outer(table.sum(axis=1), table.sum(axis=0))))
        return Disagreement(float(np.sum(distance * table)), expected, float(distance.max()))

    words = {"none": "Cohen's kappa", "linear": "linearly weighted kappa", "quadratic": "quadratically weighted kappa"}
    return _with_interval(measure, len(a), float(np.mean(a == b)), confidence, seed, words[weights])


def krippendorff_alpha(
    ratings: Floats, *, level: Level = "nominal", confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Krippendorff's alpha for `ratings` (raters, units), NaN where a rater has not rated a unit.

    1 - observed ÷ expected disagreement, over units with at least two ratings. The interval resamples units.
    Source: K. Krippendorff, "Content Analysis" (2004), section 11.3.
    Raises ValueError if no unit has two ratings, for infinite values, or for more than 256 categories below interval
    level.
    """
    table = _rated(ratings, 2, "no unit was rated twice")
    measure = _interval_alpha(table) if level == "interval" else _by_category(table, level)
    return _with_interval(
        measure, table.shape[1], _equal_pairs(table), confidence, seed, f"Krippendorff's alpha ({level})"
    )


def fleiss_kappa(ratings: Floats, *, confidence: float = 0.95, seed: int = 0) -> Agreement:
    """Fleiss' kappa for `ratings` (raters, units) in categories: units that every rater has rated.

    Source: J. L. Fleiss, Psychological Bulletin 76 (1971). Raises ValueError for fewer than two raters, no complete
    unit, infinite values, or more than 256 categories.
    """
    if len(ratings) < 2:
        raise ValueError(f"ratings must be of two raters or more, got shape {np.shape(ratings)}")
    table = _rated(ratings, len(ratings), "no unit was rated by every rater")
    measure = _by_category(table, "nominal", with_replacement=True)
    return _with_interval(measure, table.shape[1], _equal_pairs(table), confidence, seed, "Fleiss' kappa")


def _rated(ratings: Floats, raters: int, otherwise: str) -> Floats:
    """The units of `ratings` that at least `raters` have rated. Raises ValueError `otherwise`."""
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2 or np.any(np.isinf(table)):
        raise ValueError(f"ratings must be (raters, units) and not infinite, got shape {table.shape}")
    table = table[:, np.sum(~np.isnan(table), axis=0) >= raters]
    if table.shape[1] == 0:
        raise ValueError(otherwise)
    return table


def _interval_alpha(table: Floats) -> Measure:
    m = np.sum(~np.isnan(table), axis=0).astype(np.float64)
    centred = table - np.nanmean(table)
    sums = np.nansum(centred, axis=0)
    squares = np.nansum(centred**2, axis=0)
    observed = 2.0 * (m * squares - sums**2) / (m - 1.0)

    widest = float(np.nanmax(table) - np.nanmin(table)) ** 2

    def measure(counts: Floats) -> Disagreement:
        total = float(counts @ m)
        expected = 2.0 * (total * float(counts @ squares) - float(counts @ sums) ** 2) / (total - 1.0)
        return Disagreement(float(counts @ observed) / total, expected / total, widest)

    return measure


def _by_category(table: Floats, level: Level, *, with_replacement: bool = False) -> Measure:
    """Disagreement from counts (units, categories) of ratings, of Krippendorff's alpha and of Fleiss' kappa.

    They differ in the pairs that chance would give: alpha draws them from the ratings without replacement.
    """
    present = ~np.isnan(table)
    categories, codes = _codes(table[present])
    k = len(categories)
    cells = np.broadcast_to(np.arange(table.shape[1]), table.shape)[present] * k + codes
    counts = np.bincount(cells, minlength=table.shape[1] * k).reshape(-1, k).astype(np.float64)
    others = counts.sum(axis=1) - 1.0

    def measure(weights: Floats) -> Disagreement:
        # On the diagonal, a rating is paired with itself too, where the distance is 0.
        coincidence = counts.T @ (counts * (weights / others)[:, None])
        margins = weights @ counts
        distance = _rank_distance(k, "none") if level == "nominal" else _ordinal_distance(margins)
        total = float(margins.sum())
        expected = float(np.sum(distance * np.outer(margins, margins)))
        expected /= total * (total if with_replacement else total - 1.0)
        return Disagreement(float(np.sum(distance * coincidence)) / total, expected, float(distance.max()))

    return measure


def _ordinal_distance(margins: Floats) -> Floats:
    cumulative = np.cumsum(margins)
    middle = cumulative - margins / 2.0
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)


def _rank_distance(k: int, weights: Weights) -> Floats:
    ranks = np.arange(k, dtype=np.float64)
    gap = np.abs(ranks[:, None] - ranks[None, :])
    if weights == "none":
        return np.asarray(gap > 0, dtype=np.float64)
    return np.asarray(gap if weights == "linear" else gap**2)


def _codes(values: Floats) -> tuple[Floats, NDArray[np.intp]]:
    categories, codes = np.unique(values, return_inverse=True)
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(f"{len(categories)} distinct ratings are too many for categories; use the interval level")
    return categories, codes


def _equal_pairs(table: Floats) -> float:
    equal = 0
    pairs = 0
    for i in range(len(table)):
        for j in range(i):
            both = ~np.isnan(table[i]) & ~np.isnan(table[j])
            pairs += int(both.sum())
            equal += int(np.sum(table[i, both] == table[j, both]))
    return equal / pairs


def _with_interval(measure: Measure, n: int, equal: float, confidence: float, seed: int, method: str) -> Agreement:
    check_confidence(confidence)
    found = measure(np.ones(n))
    if found.coefficient is None:
        return Agreement(None, None, None, confidence, equal, n, f"{method}, not defined: all ratings are the same")
    tail = (1.0 - confidence) / 2.0
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = (np.bincount(rng.integers(0, n, size=n), minlength=n).astype(np.float64) for _ in range(DRAWS))
    drawn = [measure(one).coefficient for one in counts]
    low, high = np.quantile([value for value in drawn if value is not None] or [1.0], [tail, 1.0 - tail])
    if found.observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may still disagree (exact binomial).
        low = 1.0 - (1.0 - tail ** (1.0 / n)) * found.widest / found.expected
    low = max(-1.0, float(low))
    high = min(1.0, float(high))
    return Agreement(found.coefficient, low, high, confidence, equal, n, f"{method}, bootstrap over units")
