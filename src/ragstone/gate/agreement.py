"""How human labels affect the gate: required agreement, and floors on the mean that people would have given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ragstone.formatting import counted, figure, percent, threshold
from ragstone.gate.bounds import LEAN
from ragstone.gate.calibration import Calibration, MetricCalibration, calibrated_version, same_judge
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import as_reported
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.rules import BoundCheck, Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.run.scores import RunScores
from ragstone.stats.intervals import MeanInterval, mean_interval


def _judged(run: RunScores, metric: str) -> bool:
    return is_judged(metric, run.metrics[metric].version if metric in run.metrics else None)


def agreement_checks(run: RunScores, rules: Sequence[Rule], policy: Policy) -> Iterator[Check]:
    """One check per judged metric: do judge and people agree as well as the policy requires?

    A metric without labels is a warning; a calibration for another judge or formula is an error.
    """
    calibration = policy.calibration
    needed = policy.labels.min_agreement is not None or policy.labels.estimate == "corrected"
    if calibration is None or not needed:
        return
    judged = {rule.metric: rule.action for rule in rules if rule.slice is None and _judged(run, rule.metric)}
    for metric, action in judged.items():
        if metric not in run.metrics:
            continue
        if metric not in calibration.metrics:
            if policy.labels.min_agreement is not None:
                why = "there are no human labels to say how far to trust it"
                yield _check(metric, Status.INCONCLUSIVE, Action.WARN, policy, why)
        elif not same_judge(calibration, run):
            label = calibration.judge.label() if calibration.judge else "another evaluator"
            yield _check(metric, Status.ERROR, action, policy, f"the human labels were compared with {label}")
        elif not calibrated_version(calibration, metric, run):
            why = "its formula changed since the human labels were compared"
            yield _check(metric, Status.ERROR, action, policy, why)
        elif policy.labels.min_agreement is not None:
            yield _agreement(metric, calibration.metrics[metric], policy.labels.min_agreement, action)


def _check(metric: str, status: Status, action: Action, policy: Policy, why: str) -> Check:
    reason = f"{why}; run ragstone calibrate with labels for a run of this judge."
    return Check(
        name=f"{metric}.agreement",
        kind=CheckKind.AGREEMENT,
        status=status,
        action=action,
        reason=f"{metric}: {reason}",
        short_reason=reason,
        metric=metric,
        threshold=policy.labels.min_agreement,
    )


def _agreement(metric: str, found: MetricCalibration, required: float, action: Action) -> Check:
    alpha = found.agreement
    n = counted(len(found.pairs), "labelled sample")
    if alpha.estimate is None or alpha.low is None or alpha.high is None:
        reason = f"agreement can't be measured on {n} that all have the same score and label."
        return Check(
            name=f"{metric}.agreement",
            kind=CheckKind.AGREEMENT,
            status=Status.INCONCLUSIVE,
            action=action,
            reason=f"{metric}: {reason}",
            short_reason=reason,
            metric=metric,
            threshold=required,
            n=len(found.pairs),
        )
    enough = alpha.estimate >= required
    span = f"{percent(alpha.confidence)} interval {figure(alpha.low)} to {figure(alpha.high)}"
    reason = (
        f"the agreement of judge and people is {figure(alpha.estimate, required)} on {n} ({span}), "
        f"{'at least' if enough else 'less than'} the {threshold(required)} required."
    )
    return Check(
        name=f"{metric}.agreement",
        kind=CheckKind.AGREEMENT,
        status=Status.PASS if enough else Status.ERROR,
        action=action,
        reason=f"{metric}: {reason}",
        short_reason=reason,
        metric=metric,
        estimate=alpha.estimate,
        interval=Interval(alpha.low, alpha.high, alpha.confidence, alpha.method),
        threshold=required,
        current=alpha.estimate,
        n=len(found.pairs),
    )


def is_corrected(question: BoundCheck, run: RunScores, policy: Policy) -> bool:
    """Whether this floor applies to the mean that people would have given."""
    calibration = policy.calibration
    return (
        policy.labels.estimate == "corrected"
        and calibration is not None
        and question.kind is CheckKind.FLOOR
        and question.rule.slice is None
        and same_judge(calibration, run)
        and calibrated_version(calibration, question.rule.metric, run)
    )


def corrected_floor(
    question: BoundCheck, run: RunScores, calibration: Calibration, policy: Policy, *, alpha: float
) -> Check:
    """A floor on the judge's mean, corrected by the difference between people and judge on labelled samples.

    `alpha` is the probability of a false fail. The judge's error on the labelled samples is assumed to be its error on
    this run (prediction-powered inference with full weight: Angelopoulos et al. 2023, "Prediction-powered inference",
    section 2.1); the two intervals are combined as in Zou and Donner 2008 (MOVER).
    """
    labelled = calibration.metrics[question.rule.metric]
    groups = group_labels(run, {sample_id: index for index, sample_id in enumerate(question.samples)})

    def intervals(level: float) -> tuple[MeanInterval, MeanInterval]:
        return (
            mean_interval(question.values, confidence=1.0 - 2.0 * level, groups=groups),
            mean_interval(
                -labelled.residuals() if question.rule.lower_is_better else labelled.residuals(),
                confidence=1.0 - 2.0 * level,
                bounds=(-labelled.reach, labelled.reach),
                groups=labelled.group_of_residuals(),
            ),
        )

    def upper(level: float) -> float:
        judged, wrong = intervals(level)
        return min(1.0, raw + math.hypot(judged.high - judged.estimate, wrong.high - wrong.estimate))

    judged, wrong = intervals(alpha)
    raw = judged.estimate + wrong.estimate
    estimate = min(1.0, max(0.0, raw))
    low = max(0.0, raw - math.hypot(judged.estimate - judged.low, wrong.estimate - wrong.low))
    low, high = min(low, estimate), max(upper(alpha), estimate)
    leans = estimate < question.bound and upper(LEAN) < question.bound
    status = _against(low, estimate, high, question.bound, policy.gate.decision, leans=leans)
    way = question.rule.direction
    limit = f"the {way.level} of {threshold(way.shown(question.bound))}"
    words = {
        Status.PASS: f"{limit} holds"
        if low >= question.bound
        else f"not {way.beyond} {limit}"
        if estimate >= question.bound
        else f"{way.beyond} {limit}, but not by more than chance explains",
        Status.FAIL: f"{way.beyond} {limit}"
        if estimate < question.bound
        else f"not shown to {'be within' if way.lower_is_better else 'reach'} {limit}",
        Status.INCONCLUSIVE: f"{way.beyond} {limit}, but not shown to be",
    }[status]
    ends = sorted((way.shown(low), way.shown(high)))
    span = f"{percent(1.0 - 2.0 * alpha)} interval {figure(ends[0])} to {figure(ends[1])}"
    check = Check(
        name=question.name,
        kind=question.kind,
        status=status,
        action=question.action,
        reason=f"{question.rule.title} as people would score it is "
        f"{figure(way.shown(estimate), way.shown(question.bound))} ({span}; the "
        f"judge gives {figure(way.shown(question.current))} on {counted(judged.n, 'sample')}, corrected by "
        f"{counted(wrong.n, 'label')}): {words}.",
        metric=question.rule.metric,
        estimate=estimate,
        interval=Interval(low, high, 1.0 - 2.0 * alpha, "prediction-powered, Gaffke's bound"),
        threshold=question.bound,
        current=question.current,
        n=judged.n,
    )
    return as_reported(check) if way.lower_is_better else check


def _against(low: float, estimate: float, high: float, bound: float, decision: str, *, leans: bool) -> Status:
    if decision == "point":
        return Status.FAIL if estimate < bound - 1e-9 else Status.PASS
    if low >= bound:
        return Status.PASS
    if high < bound or decision == "assured":
        return Status.FAIL
    return Status.INCONCLUSIVE if leans else Status.PASS
