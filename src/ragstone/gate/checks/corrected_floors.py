"""Floors on the mean that people would have given: the judge's mean, corrected by its error on labelled samples."""

from __future__ import annotations

import math

from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import LEAN, BoundCheck
from ragstone.gate.calibration import MetricCalibration
from ragstone.gate.grouping import mean_of
from ragstone.stats.estimate import Estimate
from ragstone.stats.family import Decision
from ragstone.stats.intervals import mean_interval


def corrected_mean(
    one: BoundCheck, run: RunScores, labelled: MetricCalibration, *, alpha: float
) -> tuple[Decision, bool]:
    """The decision on a floor as people would score it, and whether it leans towards a failure.

    `alpha` is the probability of a false fail. The judge's error on the labelled samples is assumed to be its error on
    this run (prediction-powered inference with full weight: Angelopoulos et al. 2023, "Prediction-powered inference",
    section 2.1); the two intervals are combined as in Zou and Donner 2008 (MOVER).
    """
    residuals = -labelled.residuals() if one.rule.lower_is_better else labelled.residuals()
    bounds, groups = (-labelled.reach, labelled.reach), labelled.group_of_residuals()

    def parts(level: float) -> tuple[Estimate, Estimate]:
        confidence = 1.0 - 2.0 * level
        judged = mean_of(run, one.samples, one.values, confidence=confidence)
        return judged, mean_interval(residuals, confidence=confidence, bounds=bounds, groups=groups)

    def upper(level: float) -> float:
        judged, wrong = parts(level)
        return min(1.0, raw + math.hypot(judged.high - judged.estimate, wrong.high - wrong.estimate))

    judged, wrong = parts(alpha)
    raw = judged.estimate + wrong.estimate
    estimate = min(1.0, max(0.0, raw))
    low = min(max(0.0, raw - math.hypot(judged.estimate - judged.low, wrong.estimate - wrong.low)), estimate)
    high = max(upper(alpha), estimate)
    method = "prediction-powered, Gaffke's bound"
    decision = Decision(
        estimate=estimate,
        interval=Estimate(estimate, low, high, 1.0 - 2.0 * alpha, method, judged.n),
        p_below=math.nan,
        below=high < one.bound,
        above=low >= one.bound,
        n=judged.n,
        n_more=None,
        detectable=None,
        p_adjusted=None,
    )
    return decision, estimate < one.bound and upper(LEAN) < one.bound
