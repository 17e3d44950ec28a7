"""Is each mean at least its floor (at most its ceiling, where less is better)?

A floor is about these questions, so a mean below it never passes. It fails if it is
below by more than the answers vary; else it is inconclusive. If the baseline is below
the same floor, the run did not bring that about, so it is inconclusive too. A floor of
the default rules, which nobody wrote, fails only if other questions of this kind would
be below it as well. With ``decision = "assured"`` the whole interval, which is for
other questions of this kind, must reach the floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist, fmean

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, figure, threshold
from ragstone.gate.bounds import ROUNDING, Floor, answers_per_sample, reported_interval
from ragstone.gate.calibration import MetricCalibration, is_same_judge, is_same_version
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.gate.word_comparison import as_by_words, floor_without_word_losses
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval

MAX_P_NOISE = 0.01
"""A mean fails if the noise of the answers alone takes one that is at its floor so far
below it with at most this probability."""


class Floors(Checker):
    """One check for each floor and ceiling."""

    kinds = (CheckKind.FLOOR, CheckKind.CEILING)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        for floor in evidence.floors:
            check = _check(floor, evidence)
            yield _without_word_losses(check, floor, evidence)


def _check(floor: Floor, evidence: Evidence) -> Check:
    """The check of one floor."""
    rule = floor.rule
    direction = rule.direction
    gate = evidence.policy.gate
    labels = _labels_of(floor, evidence)
    ending = ""
    unsettled = False
    if labels is None:
        mean = mean_of(
            evidence.current, floor.samples, floor.values, confidence=gate.confidence
        )
    else:
        mean = _corrected_mean(floor, evidence.current, labels)
        judge_mean = figure(direction.reported(floor.current))
        pairs = len(labels.pairs)
        ending = f", as people would score it (the judge gives {judge_mean}, corrected by {pairs:,} labels)"
    status = Status.PASS
    is_below = mean.estimate < floor.bound - ROUNDING
    if gate.decision == "assured":
        if mean.low < floor.bound:
            status = Status.FAIL
        ending += ", which its whole interval must reach"
    elif is_below and labels is not None:
        status = Status.FAIL if mean.high < floor.bound else Status.INCONCLUSIVE
    elif is_below:
        status, ending, unsettled = _decide_below(floor, mean, evidence)
    limit = direction.reported(floor.bound)
    estimate = direction.reported(mean.estimate)
    value = figure(estimate, limit)
    side = direction.failing_side if is_below else f"not {direction.failing_side}"
    samples = counted(mean.n, "sample")
    limit_words = f"{direction.level_kind} of {threshold(limit)}"
    return Check(
        rule.name_of(direction.level_kind),
        direction.level_kind,
        status,
        rule.floor_action,
        f"{rule.title} is {value} on {samples}, {side} the {limit_words}{ending}.",
        rule.metric,
        rule.slice,
        estimate=estimate,
        interval=reported_interval(mean, direction.reported),
        threshold=limit,
        current=direction.reported(floor.current),
        n=len(floor.values),
        unsettled=unsettled,
    )


def _decide_below(
    floor: Floor, mean: Estimate, evidence: Evidence
) -> tuple[Status, str, bool]:
    """Decide a mean below its floor. Return its status, the end of its reason, and
    whether more answers could settle it."""
    run = evidence.current
    rule = floor.rule
    metric = rule.metric
    pairing = evidence.compared
    scores = pairing.baseline.scores_of(metric).values
    compared = pairing.changes(metric).keys() & set(floor.samples)
    baseline_scores = [scores[sample_id] for sample_id in compared]
    limit = floor.bound - ROUNDING
    if baseline_scores and rule.direction.reported(fmean(baseline_scores)) < limit:
        return Status.INCONCLUSIVE, ", as the baseline is", False
    quantile = NormalDist().inv_cdf(1.0 - MAX_P_NOISE)
    noise = quantile * _noise_of(floor, evidence)
    if mean.estimate + noise >= floor.bound:
        return Status.INCONCLUSIVE, ", by no more than its answers vary", True
    if not rule.written and mean.high >= floor.bound:
        ending = ", a default floor, by no more than other questions would vary"
        return Status.INCONCLUSIVE, ending, False
    # More answers say nothing new if there are several already, or if all are known to
    # be the same.
    is_asked_once = answers_per_sample(run) == 1
    return Status.FAIL, "", is_asked_once and not run.steady


def _noise_of(floor: Floor, evidence: Evidence) -> float:
    """The standard error of the mean over these questions that the variation of their
    answers causes.

    It is measured on the answers of this run, or else on the runs of the baseline; 0 if
    neither has several of a question.
    """
    for run in (evidence.current, evidence.compared.baseline):
        answers_of = run.scores_of(floor.rule.metric).answers
        variances = []
        for sample_id in floor.samples:
            answers = answers_of.get(sample_id, ())
            scores = [score for score in answers if score is not None]
            if len(scores) > 1:
                # The score of a sample in this run is the mean of its answers.
                averaged = len(scores) if run is evidence.current else 1
                variance = float(np.var(scores, ddof=1))
                variances.append(variance / averaged)
        if variances:
            mean_variance = sum(variances) / len(variances)
            return math.sqrt(mean_variance / len(floor.samples))
    return 0.0


def _labels_of(floor: Floor, evidence: Evidence) -> MetricCalibration | None:
    """The human labels that correct the mean for this floor; None if the floor applies
    to the judge's mean."""
    policy = evidence.policy
    calibration = policy.calibration
    is_corrected = policy.labels.estimate == "corrected"
    rule = floor.rule
    if calibration is None or not is_corrected or rule.slice is not None:
        return None
    run = evidence.current
    metric = rule.metric
    has_same_judge = is_same_judge(calibration, run)
    if has_same_judge and is_same_version(calibration, metric, run):
        return calibration.metrics[metric]
    return None


def _corrected_mean(
    floor: Floor, run: RunScores, labelled: MetricCalibration
) -> Estimate:
    """The mean as people would score it, with an interval that misses it on each side
    with the probability `MAX_P_NOISE`.

    The judge's error on the labelled samples is assumed to be its error on this run
    (prediction-powered inference with full weight: Angelopoulos et al. 2023,
    "Prediction-powered inference", section 2.1); the two intervals are combined as in
    Zou and Donner 2008 (MOVER).
    """
    confidence = 1.0 - 2.0 * MAX_P_NOISE
    residuals = labelled.residuals()
    if floor.rule.lower_is_better:
        residuals = -residuals
    judge_mean = mean_of(run, floor.samples, floor.values, confidence=confidence)
    max_residual = labelled.max_residual
    error = mean_interval(
        residuals,
        confidence=confidence,
        bounds=(-max_residual, max_residual),
        groups=labelled.group_labels(),
    )
    total = judge_mean.estimate + error.estimate
    judged_below = judge_mean.estimate - judge_mean.low
    judged_above = judge_mean.high - judge_mean.estimate
    error_below = error.estimate - error.low
    error_above = error.high - error.estimate
    below = math.hypot(judged_below, error_below)
    above = math.hypot(judged_above, error_above)
    corrected = [total - below, total, total + above]
    estimates = np.clip(corrected, 0.0, 1.0)
    low, estimate, high = estimates.tolist()
    return Estimate(
        estimate,
        low,
        high,
        confidence,
        "prediction-powered, Gaffke's bound",
        judge_mean.n,
    )


def _without_word_losses(check: Check, floor: Floor, evidence: Evidence) -> Check:
    """`check`, which only warns if it would pass without the losses that only the words
    of the offline judge show."""
    if check.passed or not check.blocks or _labels_of(floor, evidence) is not None:
        return check
    by_facts = floor_without_word_losses(floor, evidence)
    if _check(by_facts, evidence).passed:
        return as_by_words(check)
    return check
