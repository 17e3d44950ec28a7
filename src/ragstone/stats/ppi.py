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
