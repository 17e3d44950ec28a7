"""Floors on the mean that people would have given: the judge's mean, corrected by its
error on labelled samples."""

from __future__ import annotations

import math

from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import BoundCheck
from ragstone.gate.calibration import MetricCalibration, calibrated_version, same_judge
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval


def labels_of(floor: BoundCheck, evidence: Evidence) -> MetricCalibration | None:
    """The human labels that correct this floor; None if it applies to the judge's
    mean."""
    calibration = evidence.policy.calibration
    metric = floor.rule.metric
    if (
        calibration is None
        or evidence.policy.labels.estimate != "corrected"
        or floor.rule.slice is not None
    ):
        return None
    if not same_judge(calibration, evidence.current):
        return None
    if not calibrated_version(calibration, metric, evidence.current):
        return None
    return calibration.metrics[metric]


def corrected_mean(
    floor: BoundCheck, run: RunScores, labelled: MetricCalibration, *, alpha: float
) -> Estimate:
    """The mean as people would score it, with an interval that misses it on each side
    with probability `alpha`.

    The judge's error on the labelled samples is assumed to be its error on this run
    (prediction-powered inference with full weight: Angelopoulos et al. 2023,
    "Prediction-powered inference", section 2.1); the two intervals are combined as in
    Zou and Donner 2008 (MOVER).
    """
    confidence = 1.0 - 2.0 * alpha
    residuals = labelled.residuals()
    if floor.rule.lower_is_better:
        residuals = -residuals
    judged = mean_of(run, floor.samples, floor.values, confidence=confidence)
    error = mean_interval(
        residuals,
        confidence=confidence,
        bounds=(-labelled.reach, labelled.reach),
        groups=labelled.group_of_residuals(),
    )
    total = judged.estimate + error.estimate
    below = math.hypot(judged.estimate - judged.low, error.estimate - error.low)
    above = math.hypot(judged.high - judged.estimate, error.high - error.estimate)
    estimate = min(1.0, max(0.0, total))
    low = min(max(0.0, total - below), estimate)
    high = max(min(1.0, total + above), estimate)
    return Estimate(
        estimate, low, high, confidence, "prediction-powered, Gaffke's bound", judged.n
    )
