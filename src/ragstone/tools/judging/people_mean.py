"""The mean that people would give to all answers, estimated from labels of a few and
the judge's scores of all (prediction-powered inference, PPI)."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.intervals import mean_interval


class PeopleMean(Struct, frozen=True):
    """The estimated mean label of all answers, in [0, 1], with a two-sided interval."""

    estimate: float
    low: float
    high: float
    judge_weight: float
    """The weight of the judge's scores, λ, in [0, 1]; 0 if only the labels are used."""


def inverse_weights(probabilities: Floats) -> Floats:
    """Weights (n,), with mean 1, for answers that were drawn with these `probabilities`
    (n,): inversely proportional to them.

    The weighted mean of the drawn answers estimates the mean of all, with a bias of the
    order of 1/n (Hájek 1971).
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
    """Estimate the mean label of all answers.

    `labels`, the judge's `scores`, `weights` (from `inverse_weights`; all 1 if every
    answer was drawn with the same probability) and `groups` (n,) are of the labelled
    answers; `all_scores` and `all_groups` (N,) are of all answers. Labels and scores
    are in [0, 1].

    The estimate is λ mean(all scores) + mean of w (label - λ score), with the λ in [0,
    1] that minimises the variance of the second part (Angelopoulos, Duchi, Zrnic 2023,
    "PPI++", section 6; with weights Zrnic and Candès 2024, "Active statistical
    inference"). Its interval combines those of the two means, which are taken as
    independent (Zou and Donner 2008, "MOVER"). If the judge's scores don't narrow the
    interval, only the labels are used (λ = 0).
    """
    judge_mean = mean_interval(all_scores, confidence=confidence, groups=all_groups)
    max_weight = float(weights.max())
    estimates = []
    for judge_weight in (0.0, _judge_weight(labels, scores, weights)):
        errors = weights * (labels - judge_weight * scores)
        # mean_interval takes values in [0, 1]. It allows for errors that the sample
        # hasn't shown, anywhere within their bounds: few labels give a wide interval.
        min_error = -judge_weight * max_weight
        error_range = (1.0 + judge_weight) * max_weight
        error_mean = mean_interval(
            (errors - min_error) / error_range, confidence=confidence, groups=groups
        )
        estimate = (
            judge_weight * judge_mean.estimate
            + min_error
            + error_range * error_mean.estimate
        )
        margin_below = math.hypot(
            judge_weight * (judge_mean.estimate - judge_mean.low),
            error_range * (error_mean.estimate - error_mean.low),
        )
        margin_above = math.hypot(
            judge_weight * (judge_mean.high - judge_mean.estimate),
            error_range * (error_mean.high - error_mean.estimate),
        )
        estimates.append(
            PeopleMean(
                estimate=min(1.0, max(0.0, estimate)),
                low=max(0.0, estimate - margin_below),
                high=min(1.0, estimate + margin_above),
                judge_weight=judge_weight,
            )
        )
    return min(estimates, key=lambda mean: mean.high - mean.low)


def _judge_weight(labels: Floats, scores: Floats, weights: Floats) -> float:
    """The best λ: Cov(w label, w score) ÷ Var(w score), about the weighted means, in
    [0, 1]; 0 if all scores are the same."""
    label_mean = np.mean(weights * labels)
    score_mean = np.mean(weights * scores)
    label_deviations = weights * (labels - label_mean)
    score_deviations = weights * (scores - score_mean)
    variance = float(score_deviations @ score_deviations)
    if variance <= 1e-12:
        return 0.0
    covariance = float(label_deviations @ score_deviations)
    return min(1.0, max(0.0, covariance / variance))
