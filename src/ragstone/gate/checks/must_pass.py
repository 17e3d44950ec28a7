"""Did the samples pass that must always pass?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ragstone.formatting import counted, figure, some, threshold
from ragstone.gate.checks.checker import Checker
from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.run.scores import RunScores


class MustPass(Checker):
    """One check for each must-pass sample that did not pass, and one that counts those that did."""

    kinds = (CheckKind.MUST_PASS,)
    policy_key = ("must_pass",)

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        action, floors = evidence.policy.must_pass.action, _floors(evidence)
        lower = {rule.metric for rule in evidence.rules if rule.lower_is_better}
        samples = tuple(dict.fromkeys(evidence.policy.must_pass.samples))
        passed, total = 0, len(samples)
        for sample_id in samples:
            status, why = _result(evidence.current, sample_id, floors, lower)
            if status is Status.PASS:
                passed += 1
                continue
            yield Check(
                name=f"must_pass.{sample_id}",
                kind=CheckKind.MUST_PASS,
                status=status,
                action=action,
                reason=f"must-pass sample {sample_id}: {why}.",
                short_reason=f"{why}.",
                sample=sample_id,
                n=1,
            )
        if passed:
            every = f"all {total:,} samples" if total > 1 else "its only sample"
            yield Check(
                name="must_pass",
                kind=CheckKind.MUST_PASS,
                status=Status.PASS,
                action=action,
                reason=f"{passed} of {counted(total, 'must-pass sample')} passed.",
                short_reason=every if passed == total else f"the other {passed} of {total} samples",
                n=passed,
            )

    def found(self, check: Check) -> str:
        return (check.short_reason or "") if check.status is Status.PASS else "failed"


def _floors(evidence: Evidence) -> dict[str, float]:
    """What each sample must reach, by metric; 1 − the ceiling where less is better."""
    must, names = evidence.policy.must_pass, any(rule.written and rule.slice is None for rule in evidence.rules)
    needed = {
        rule.metric: must.min if must.min is not None and not rule.lower_is_better else rule.min
        for rule in evidence.rules
        if rule.slice is None
        if (rule.written or not names if must.metrics is None else {rule.metric, rule.key} & set(must.metrics))
    }
    ruled = {name for rule in evidence.rules for name in (rule.metric, rule.key)}
    needed.update({metric: must.min for metric in must.metrics or () if metric not in ruled})
    return {metric: floor for metric, floor in needed.items() if floor is not None}


def _result(run: RunScores, sample_id: str, floors: Mapping[str, float], lower: Collection[str]) -> tuple[Status, str]:
    """Whether the sample passed, and why not."""
    if sample_id not in run.samples:
        return Status.ERROR, "it is not in this run"
    if sample_id in run.system.failures:
        return Status.FAIL, f"the system under test failed on it: {run.system.failures[sample_id]}"
    below, unscored, reached = [], [], 0
    for metric, floor in floors.items():
        scores = run.metrics.get(metric)
        if scores is not None and sample_id in scores.failed:
            unscored.append(f"{metric} could not be scored: {scores.failed[sample_id].reason}")
        elif scores is not None and sample_id in scores.values:
            way = LOWER if metric in lower else HIGHER
            value, required = scores.values[sample_id], way.shown(floor)
            missed = value > required if way.lower_is_better else value < required
            reached += not missed
            if missed:
                most = "at most " if way.lower_is_better else ""
                below.append(f"{metric} is {figure(value, required)}, required {most}{threshold(required)}")
    if below:
        return Status.FAIL, some(below)
    if unscored:
        return Status.ERROR, some(unscored)
    return (Status.PASS, "") if reached else (Status.ERROR, "no metric with a floor has a score for it")
