"""Do judge and people agree as well as the policy requires?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, figure, threshold
from ragstone.gate.calibration import (
    Calibration,
    MetricCalibration,
    is_same_judge,
    is_same_version,
)
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import is_judged
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class Agreement(Checker):
    """One check per judged metric.

    A metric without labels only warns. A calibration for another judge or another
    version of the metric is an error.
    """

    kinds = (CheckKind.AGREEMENT,)
    policy_key = ("labels", "min_agreement")
    heading = "Agreement with people"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        calibration = evidence.policy.calibration
        labels = evidence.policy.labels
        needs_agreement = labels.min_agreement is not None
        is_corrected = labels.estimate == "corrected"
        if calibration is None or not (needs_agreement or is_corrected):
            return
        run = evidence.current
        for rule in evidence.rules:
            metric = rule.metric
            is_measured = rule.slice is None and metric in run.metrics
            if is_measured and is_judged(metric, run.metrics[metric].version):
                yield from _check(rule, run, calibration, labels.min_agreement)


def _check(
    rule: Rule, run: RunScores, calibration: Calibration, required: float | None
) -> Iterator[Check]:
    """The check of one metric. If no agreement is `required`, there is one only where
    the calibration does not fit the run: corrected estimates need it."""
    calibrated = calibration.metrics.get(rule.metric)
    status = Status.ERROR
    action = rule.action
    if calibrated is None:
        if required is None:
            return
        status = Status.INCONCLUSIVE
        action = Action.WARN
        problem = "there are no human labels for it"
    elif not is_same_judge(calibration, run):
        judge = calibration.judge.label() if calibration.judge else "another evaluator"
        problem = f"the human labels were compared with {judge}"
    elif not is_same_version(calibration, rule.metric, run):
        problem = "its formula changed since the human labels were compared"
    else:
        if required is not None:
            yield _agreement_check(rule, calibrated, required)
        return
    reason = f"{problem}; run ragstone calibrate with labels for a run of this judge."
    check = rule.check(CheckKind.AGREEMENT, status, action, reason)
    yield replace(check, threshold=required)


def _agreement_check(
    rule: Rule, calibration: MetricCalibration, required: float
) -> Check:
    """The check of the agreement that was measured, if it could be."""
    agreement = calibration.agreement.estimate
    n = len(calibration.pairs)
    labelled = counted(n, "labelled sample")
    if agreement is None:
        status = Status.INCONCLUSIVE
        reason = f"agreement can't be measured: all {labelled} have the same score and label."
    else:
        status = Status.PASS if agreement >= required else Status.ERROR
        measured = figure(agreement, required)
        limit = threshold(required)
        reason = f"the agreement of judge and people is {measured} on {labelled}, required {limit}."
    check = rule.check(CheckKind.AGREEMENT, status, rule.action, reason)
    return replace(check, estimate=agreement, threshold=required, n=n)
