"""Do judge and people agree as well as the policy requires?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragstone.formatting import counted, figure, percent, threshold
from ragstone.gate.calibration import MetricCalibration, calibrated_version, same_judge
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import is_judged
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status


class Agreement(Checker):
    """One check per judged metric. Without labels it is a warning; a calibration for another judge is an error."""

    kinds = (CheckKind.AGREEMENT,)
    policy_key = ("labels", "min_agreement")
    heading = "Agreement with people"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run, calibration, labels = evidence.current, evidence.policy.calibration, evidence.policy.labels
        if calibration is None or (labels.min_agreement is None and labels.estimate != "corrected"):
            return
        overall = {rule.metric: rule for rule in evidence.rules if rule.slice is None and rule.metric in run.metrics}
        for metric, rule in overall.items():
            if not is_judged(metric, run.metrics[metric].version):
                continue
            if metric not in calibration.metrics:
                if labels.min_agreement is not None:
                    why = "there are no human labels to say how far to trust it"
                    yield _unknown(rule, Status.INCONCLUSIVE, Action.WARN, evidence, why)
            elif not same_judge(calibration, run):
                label = calibration.judge.label() if calibration.judge else "another evaluator"
                why = f"the human labels were compared with {label}"
                yield _unknown(rule, Status.ERROR, rule.action, evidence, why)
            elif not calibrated_version(calibration, metric, run):
                why = "its formula changed since the human labels were compared"
                yield _unknown(rule, Status.ERROR, rule.action, evidence, why)
            elif labels.min_agreement is not None:
                yield _measured(rule, calibration.metrics[metric], labels.min_agreement)


def _unknown(rule: Rule, status: Status, action: Action, evidence: Evidence, why: str) -> Check:
    reason = f"{why}; run ragstone calibrate with labels for a run of this judge."
    check = rule.check(CheckKind.AGREEMENT, status, action, reason)
    return replace(check, threshold=evidence.policy.labels.min_agreement)


def _measured(rule: Rule, found: MetricCalibration, required: float) -> Check:
    alpha = found.agreement
    n = counted(len(found.pairs), "labelled sample")
    if alpha.estimate is None or alpha.low is None or alpha.high is None:
        reason = f"agreement can't be measured: all {n} have the same score and label."
        check = rule.check(CheckKind.AGREEMENT, Status.INCONCLUSIVE, rule.action, reason)
        return replace(check, threshold=required, n=len(found.pairs))
    enough = alpha.estimate >= required
    span = f"{percent(alpha.confidence)} interval {figure(alpha.low)} to {figure(alpha.high)}"
    reason = (
        f"the agreement of judge and people is {figure(alpha.estimate, required)} on {n} ({span}), "
        f"{'at least' if enough else 'less than'} the {threshold(required)} required."
    )
    return replace(
        rule.check(CheckKind.AGREEMENT, Status.PASS if enough else Status.ERROR, rule.action, reason),
        estimate=alpha.estimate,
        interval=Interval(alpha.low, alpha.high, alpha.confidence, alpha.method),
        threshold=required,
        current=alpha.estimate,
        n=len(found.pairs),
    )
