"""Prediction-powered inference: a mean from few trusted labels and many predictions (PPI++)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.bounded_mean import blocks_of, lower_limit, upper_limit
from ragstone.stats.normal import normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    groups: tuple[Ints, Ints] | None = None,
) -> PoweredMean:
    """The mean from `labels` (n,), `predictions` (n,) for the same units, and `unlabelled` (N,) predictions for others.

    All are in [0, 1].
    Assumes that the labelled units were drawn at random. estimate = Ȳ + λ (mean f(unlabelled) - mean f(labelled))
    with the λ that minimises its variance, clipped to [0, 1] (Angelopoulos, Duchi, Zrnic 2023, "PPI++", example 6.1).
    The interval combines Gaffke's limits for the mean of Y - λf with normal limits for λ mean f (Zou and Donner 2008,
    "MOVER"), so few labels give a wide interval. With labels that are shares, unseen values of Y - λf are assumed to be
    no farther from the mean than the farthest seen, or half the scale, as for paired differences. `groups` (n,) and
    (N,) label related units of both kinds: then groups are what is independent. Without unlabelled units λ is 0.
    Raises ValueError for no labels, different lengths, or values out of bounds.
    """
    y, f, rest = _checked(labels, predictions, unlabelled)
    weight = tuned_weight(y, f, rest)
    return _powered(
        y - weight * f,
        rest,
        weight,
        limits=(-weight, 1.0),
        confidence=confidence,
        labels_only=float(np.mean(y)),
        variances=(_variance(y), _variance(y - weight * f)),
        method="prediction-powered (PPI++) with Gaffke's bound" if weight > 0.0 else "labels alone, Gaffke's bound",
        groups=groups,
        whole=_is_pass_or_fail(y),
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
    labels: Floats,
    predictions: Floats,
    weights: Floats,
    population: Floats,
    *,
    confidence: float = 0.95,
    groups: tuple[Ints, Ints] | None = None,
) -> PoweredMean:
    """The mean label in [0, 1] of a population, from units that were drawn with known, unequal probabilities.

    `labels`, `predictions` and `weights` (n,) are of the drawn units (`inverse_weights`), `population` (N,) are the
    predictions of all; `groups` are as in `powered_mean`, of the drawn units and of all. The estimate is
    λ mean f(population) + mean of w (Y - λ f), as in Zrnic and Candès 2024, "Active statistical inference"; λ minimises
    the variance of the second part, clipped to [0, 1]. The interval is that of `powered_mean`, for values within the
    bounds that the largest weight allows. Draws are treated as independent and weights as fixed, which makes it rather
    too wide.
    Raises ValueError as `powered_mean`.
    """
    y, f, every = _checked(labels, predictions, population)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != y.shape or not len(every):
        raise ValueError(f"labels, predictions and weights of the same units are needed, got {y.shape} and {w.shape}")
    mine, theirs, weight = _centred(y, f, w)
    return _powered(
        w * (y - weight * f),
        every,
        weight,
        limits=(-float(w.max()) * weight, float(w.max())),
        confidence=confidence,
        labels_only=float(np.clip(np.mean(w * y), 0.0, 1.0)),
        variances=(_variance(mine), _variance(mine - weight * theirs)),
        method="prediction-powered, weighted by the probability of being drawn, with Gaffke's bound",
        groups=groups,
        whole=_is_pass_or_fail(y),
    )


def _centred(y: Floats, f: Floats, w: Floats) -> tuple[Floats, Floats, float]:
    """The weighted deviations of labels and predictions, and the λ in [0, 1] with the least variance of their rest."""
    mine = w * (y - np.mean(w * y))
    theirs = w * (f - np.mean(w * f))
    if len(y) < 2 or _variance(theirs) <= 0.0:
        return mine, theirs, 0.0
    return mine, theirs, min(1.0, max(0.0, float(np.sum(mine * theirs)) / float(np.sum(theirs**2))))


def _is_pass_or_fail(labels: Floats) -> bool:
    return bool(np.all((labels == 0.0) | (labels == 1.0)))


def _powered(
    left: Floats,
    others: Floats,
    weight: float,
    *,
    limits: tuple[float, float],
    confidence: float,
    labels_only: float,
    variances: tuple[float, float],
    method: str,
    groups: tuple[Ints, Ints] | None,
    whole: bool,
) -> PoweredMean:
    """The mean of `left` (n,) plus `weight` times that of `others`, with Gaffke's limits for the first.

    `whole`: unseen values of `left` may be anywhere in `limits`, else at most half as far from the mean.
    `variances` are those of the labels alone and of `left`, of one unit.
    """
    n = len(left)
    many = max(1, len(others))
    tail = (1.0 - confidence) / 2.0
    blocks = blocks_of(left, None if groups is None else groups[0])
    centre = float(np.mean(left))
    estimate = centre + (weight * float(np.mean(others)) if len(others) else 0.0)
    if groups is None:
        spread = normal_quantile(1.0 - tail) * weight * math.sqrt(_variance(others) / many)
    else:
        spread = _grouped_spread(left, weight * others, groups, tail)
    half = limits[1] if whole else max(0.5 * limits[1], float(np.max(np.abs(left - centre))))
    reach = max(limits[0], centre - half), min(limits[1], centre + half)
    low = estimate - math.hypot(centre - lower_limit(blocks, tail, reach), spread)
    high = estimate + math.hypot(upper_limit(blocks, tail, reach) - centre, spread)
    joined = variances[1] / n + weight**2 * _variance(others) / many
    return PoweredMean(
        min(1.0, max(0.0, estimate)),
        max(0.0, low),
        min(1.0, high),
        confidence,
        weight,
        labels_only,
        variances[0] / n / joined if joined > 0.0 else 1.0,
        method,
    )


def _grouped_spread(left: Floats, right: Floats, groups: tuple[Ints, Ints], tail: float) -> float:
    """The half-width that mean `right` (N,) adds to that of mean `left` (n,), where groups have units of both.

    Student's t times the root of what the variance of the sum, over groups, exceeds that of the first mean by.
    """
    if not len(right):
        return 0.0
    _, index = np.unique(np.concatenate(groups), return_inverse=True)
    count = int(index.max()) + 1
    first, second = (
        np.bincount(at, weights=(part - part.mean()) / len(part), minlength=count)
        for at, part in ((index[: len(left)], left), (index[len(left) :], right))
    )
    if count < 2:
        return math.inf
    more = count / (count - 1) * float(np.sum((first + second) ** 2) - np.sum(first**2))
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 1.0 - tail)) * math.sqrt(max(0.0, more))


def _checked(labels: Floats, predictions: Floats, others: Floats) -> tuple[Floats, Floats, Floats]:
    y, f, rest = (np.asarray(part, dtype=np.float64) for part in (labels, predictions, others))
    if y.ndim != 1 or not len(y) or y.shape != f.shape:
        raise ValueError(f"labels and predictions on the same units are needed, got {y.shape} and {f.shape}")
    for part in (y, f, rest):
        if not np.all(np.isfinite(part)) or np.any(part < -1e-9) or np.any(part > 1.0 + 1e-9):
            raise ValueError("values must be finite and within (0.0, 1.0)")
    return y, f, rest


def tuned_weight(labels: Floats, predictions: Floats, unlabelled: Floats) -> float:
    """λ = Cov(Y, f) ÷ ((1 + n/N) Var f), clipped to [0, 1], with Var f over all units. 0 if f is constant."""
    n = len(labels)
    many = len(unlabelled)
    if n < 2 or many == 0:
        return 0.0
    variance = _variance(np.concatenate([predictions, unlabelled]))
    if variance <= 0.0:
        return 0.0
    covariance = float(np.sum((labels - labels.mean()) * (predictions - predictions.mean()))) / (n - 1)
    return min(1.0, max(0.0, covariance / ((1.0 + n / many) * variance)))


def _variance(values: Floats) -> float:
    if len(values) > 1:
        return float(np.var(values, ddof=1))
    return 0.0
