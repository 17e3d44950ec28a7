"""The mean that people would give to all answers, from few labels and the judge's
scores of all (PPI)."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.intervals import mean_interval


class PeopleMean(Struct, frozen=True):
    """The estimated mean label over all answers, in [0, 1], with a two-sided interval.

    `judge_weight` (λ, in [0, 1]) is the weight of the judge's scores; with 0, the
    labels stand alone.
    """

    estimate: float
    low: float
    high: float
    judge_weight: float


def inverse_weights(probabilities: Floats) -> Floats:
    """Weights (n,) of answers that were drawn with these `probabilities` (n,):
    inversely proportional, with mean 1.

    The weighted mean of the answers estimates that of all; its bias is of the order of
    1/n (Hájek 1971).
    """
    inverse = 1.0 / probabilities
    return np.asarray(inverse / inverse.mean())


def people_mean(
    labels: Floats,
    scores: Floats,
    weights: Floats,
    all_scores: Floats,
    *,
    groups: Ints | None = None,
    all_groups: Ints | None = None,
    confidence: float = 0.95,
) -> PeopleMean:
    """The mean label of all answers.

    `labels`, the judge's `scores`, `weights` (`inverse_weights`; all 1 if every answer
    was drawn with the same probability) and `groups` (n,) are of the labelled answers;
    `all_scores` and `all_groups` (N,) of all. All values are in [0, 1].

    The estimate is λ mean(all scores) + mean of w (label - λ score), with the λ in [0,
    1] that minimises the variance of the second part (Angelopoulos, Duchi, Zrnic 2023,
    "PPI++", section 6; with weights Zrnic and Candès 2024, "Active statistical
    inference"). Its interval combines those of the two means, which are taken as
    independent (Zou and Donner 2008, "MOVER"). Where the judge's scores don't narrow
    it, the labels stand alone.
    """
    judge = mean_interval(all_scores, confidence=confidence, groups=all_groups)
    estimates = []
    for judge_weight in (0.0, _judge_weight(labels, scores, weights)):
        errors = weights * (labels - judge_weight * scores)
        # Unseen errors may be anywhere between these bounds, so few labels give a wide
        # interval.
        max_weight = float(weights.max())
        low_bound = -judge_weight * max_weight
        width = (1.0 + judge_weight) * max_weight
        error = mean_interval(
            (errors - low_bound) / width, confidence=confidence, groups=groups
        )
        estimate = judge_weight * judge.estimate + low_bound + width * error.estimate
        below = math.hypot(
            judge_weight * (judge.estimate - judge.low),
            width * (error.estimate - error.low),
        )
        above = math.hypot(
            judge_weight * (judge.high - judge.estimate),
            width * (error.high - error.estimate),
        )
        clipped = min(1.0, max(0.0, estimate))
        estimates.append(
            PeopleMean(
                clipped,
                max(0.0, estimate - below),
                min(1.0, estimate + above),
                judge_weight,
            )
        )
    return min(estimates, key=lambda mean: mean.high - mean.low)


def _judge_weight(labels: Floats, scores: Floats, weights: Floats) -> float:
    """λ = Cov(w label, w score) ÷ Var(w score), about the weighted means, in [0, 1]; 0
    if the scores are all alike."""
    label_mean = np.mean(weights * labels)
    score_mean = np.mean(weights * scores)
    label_deviations = weights * (labels - label_mean)
    score_deviations = weights * (scores - score_mean)
    variance = float(score_deviations @ score_deviations)
    if variance <= 1e-12:
        return 0.0
    covariance = float(label_deviations @ score_deviations)
    return min(1.0, max(0.0, covariance / variance))
