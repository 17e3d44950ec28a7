"""Prediction-powered inference: a mean from few trusted labels and many predictions (PPI++)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ragstone.stats.bounded_mean import blocks_of, lower_limit, upper_limit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """The estimated mean label over all units, with a two-sided interval.

    `weight` (λ, in [0, 1]) is the weight of the predictions; with 0 the estimate is the mean of the labels,
    `labels_only`. `gain` is the number of labels that would give the same standard error on their own, per label.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    weight: float
    labels_only: float
    gain: float
    method: str


def powered_mean(
    labels: Floats,
    predictions: Floats,
    unlabelled: Floats,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> PoweredMean:
    """The mean from `labels` (n,), `predictions` (n,) for the same units, and `unlabelled` (N,) predictions for others.

    Assumes that the labelled units were drawn at random. estimate = Ȳ + λ (mean f(unlabelled) - mean f(labelled))
    with the λ that minimises its variance, clipped to [0, 1] (Angelopoulos, Duchi, Zrnic 2023, "PPI++", example 6.1).
    The interval combines Gaffke's limits for the mean of Y - λf with normal limits for λ mean f (Zou and Donner 2008,
    "MOVER"), so few labels give a wide interval. Without unlabelled units λ is 0.
    Raises ValueError for no labels, different lengths, or values out of bounds.
    """
    y, f, rest = (np.asarray(part, dtype=np.float64) for part in (labels, predictions, unlabelled))
    lo, hi = bounds
    if y.ndim != 1 or not len(y) or y.shape != f.shape:
        raise ValueError(f"labels and predictions on the same units are needed, got {y.shape} and {f.shape}")
    for part in (y, f, rest):
        if not np.all(np.isfinite(part)) or (len(part) and (part.min() < lo - 1e-9 or part.max() > hi + 1e-9)):
            raise ValueError(f"values must be finite and within {bounds}")
    n, many = len(y), len(rest)
    weight = tuned_weight(y, f, rest)
    left = y - weight * f
    estimate = float(np.mean(left)) + (weight * float(np.mean(rest)) if many else 0.0)
    limits = (lo - weight * hi, hi - weight * lo) if weight > 0.0 else (lo, hi)
    tail = (1.0 - confidence) / 2.0
    blocks = blocks_of(left, None)
    centre = float(np.mean(left))
    spread = float(ndtri(1.0 - tail)) * weight * math.sqrt(_variance(rest) / many) if many else 0.0
    low = estimate - math.hypot(centre - lower_limit(blocks, tail, limits), spread)
    high = estimate + math.hypot(upper_limit(blocks, tail, limits) - centre, spread)
    own = _variance(y) / n
    joined = _variance(left) / n + (weight**2 * _variance(rest) / many if many else 0.0)
    return PoweredMean(
        min(hi, max(lo, estimate)),
        max(lo, low),
        min(hi, high),
        confidence,
        weight,
        float(np.mean(y)),
        own / joined if joined > 0.0 else 1.0,
        "prediction-powered (PPI++) with Gaffke's bound" if weight > 0.0 else "labels alone, Gaffke's bound",
    )


def inverse_weights(probabilities: Floats) -> Floats:
    """Weights (n,) of units that were drawn with these `probabilities` (n,): inversely proportional, with mean 1.

    The weighted mean of the units estimates that of the population; its bias is of the order of 1/n (Hájek 1971).
    Units that drop out at random don't bias it. Raises ValueError for probabilities outside (0, 1].
    """
    share = np.asarray(probabilities, dtype=np.float64)
    if share.ndim != 1 or not len(share) or not np.all((share > 0.0) & (share <= 1.0 + 1e-9)):
        raise ValueError("probabilities of being drawn must be in (0, 1]")
    inverse = 1.0 / share
    return np.asarray(inverse / inverse.mean())


def weighted_powered_mean(
    labels: Floats, predictions: Floats, weights: Floats, population: Floats, *, confidence: float = 0.95
) -> PoweredMean:
    """The mean label in [0, 1] of a population, from units that were drawn with known, unequal probabilities.

    `labels`, `predictions` and `weights` (n,) are of the drawn units (`inverse_weights`), `population` (N,) are the
    predictions of all. The estimate is λ mean f(population) + mean of w (Y - λ f), as in Zrnic and Candès 2024,
    "Active statistical inference"; λ minimises the variance of the second part, clipped to [0, 1]. The interval is that
    of `powered_mean`, for values within the bounds that the largest weight allows. Draws are treated as independent and
    weights as fixed, which makes it rather too wide.
    Raises ValueError as `powered_mean`.
    """
    y, f, w, every = (np.asarray(part, dtype=np.float64) for part in (labels, predictions, weights, population))
    if y.ndim != 1 or not len(y) or not y.shape == f.shape == w.shape or not len(every):
        raise ValueError(f"labels, predictions and weights of the same units are needed, got {y.shape}")
    for part in (y, f, every):
        if not np.all(np.isfinite(part)) or part.min() < -1e-9 or part.max() > 1.0 + 1e-9:
            raise ValueError("values must be finite and within [0, 1]")
    n = len(y)
    mine, theirs = w * (y - np.mean(w * y)), w * (f - np.mean(w * f))
    weight = 0.0
    if n > 1 and _variance(theirs) > 0.0:
        weight = min(1.0, max(0.0, float(np.sum(mine * theirs)) / float(np.sum(theirs**2))))
    left = w * (y - weight * f)
    centre = float(np.mean(left))
    estimate = weight * float(np.mean(every)) + centre
    tail = (1.0 - confidence) / 2.0
    blocks = blocks_of(left, None)
    limits = (-float(w.max()) * weight, float(w.max()))
    spread = float(ndtri(1.0 - tail)) * weight * math.sqrt(_variance(every) / len(every))
    low = estimate - math.hypot(centre - lower_limit(blocks, tail, limits), spread)
    high = estimate + math.hypot(upper_limit(blocks, tail, limits) - centre, spread)
    own = _variance(mine) / n
    joined = _variance(mine - weight * theirs) / n + weight**2 * _variance(every) / len(every)
    return PoweredMean(
        min(1.0, max(0.0, estimate)),
        max(0.0, low),
        min(1.0, high),
        confidence,
        weight,
        float(np.clip(np.mean(w * y), 0.0, 1.0)),
        own / joined if joined > 0.0 else 1.0,
        "prediction-powered, weighted by the probability of being drawn, with Gaffke's bound",
    )


def tuned_weight(labels: Floats, predictions: Floats, unlabelled: Floats) -> float:
    """λ = Cov(Y, f) ÷ ((1 + n/N) Var f), clipped to [0, 1], with Var f over all units. 0 if f is constant."""
    n, many = len(labels), len(unlabelled)
    if n < 2 or many == 0:
        return 0.0
    variance = _variance(np.concatenate([predictions, unlabelled]))
    if variance <= 0.0:
        return 0.0
    covariance = float(np.sum((labels - labels.mean()) * (predictions - predictions.mean()))) / (n - 1)
    return min(1.0, max(0.0, covariance / ((1.0 + n / many) * variance)))


def _variance(values: Floats) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0
