"""Targets: means that hold their floor or ceiling, and still miss the ideal.

A target is compared with the estimate, not tested: it never fails a run, so no error rate is spent on it, and calling a
mean good until it is shown not to be would call every small golden set good. The reason gives the interval, and says if
it reaches the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragstone.formatting import counted, figure, percent, threshold
from ragstone.gate.bounds import ROUNDING
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.rules import Rule
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import LEVELS, Action, Check, CheckKind, Interval, Status
from ragstone.stats.estimate import Estimate


class Targets(Checker):
    """A check for each target whose metric has scores; none where the floor or ceiling does not hold.

    Where there is a floor or ceiling, its estimate and interval are used.
    """

    kinds = (CheckKind.TARGET,)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        levels = {(check.metric, check.slice): check for check in evidence.decided if check.kind in LEVELS}
        for rule in evidence.rules:
            if rule.target is None:
                continue
            level = levels.get((rule.metric, rule.slice))
            if level is None:
                if (found := _measured(evidence, rule)) is not None:
                    yield _check(rule, rule.target, found.estimate, Interval.of(found), found.n)
            elif level.estimate is not None and level.interval is not None and _holds(level):
                yield _check(rule, rule.target, level.estimate, level.interval, level.n)

    def key(self, check: Check) -> KeyPath:
        if check.metric is None:
            return ()
        rule = ("metrics", check.metric, "target")
        return rule if check.slice is None else ("slices", check.slice, *rule)


def _holds(level: Check) -> bool:
    return level.status is Status.PASS


def _measured(evidence: Evidence, rule: Rule) -> Estimate | None:
    run = evidence.current
    values = run.metrics[rule.metric].values if rule.metric in run.metrics else {}
    ids = sorted(values if rule.samples is None else values.keys() & rule.samples)
    if not ids:
        return None
    return mean_of(run, ids, [values[i] for i in ids], confidence=evidence.policy.gate.confidence)


def _check(rule: Rule, target: float, estimate: float, interval: Interval, n: int) -> Check:
    lower = rule.lower_is_better
    missed = estimate > target + ROUNDING if lower else estimate < target - ROUNDING
    span = f"{percent(interval.confidence)} interval {figure(interval.low)} to {figure(interval.high)}"
    start = f"is {figure(estimate, target)} on {counted(n, 'sample')} ({span})"
    ideal = f"the target of {threshold(target)}"
    if not missed:
        said = f"{start}: good, {ideal} is met"
    else:
        reaches = interval.low <= target if lower else interval.high >= target
        chance = ", which the interval includes" if reaches else ""
        said = f"{start}: acceptable, not yet good: {'above' if lower else 'below'} {ideal}{chance}"
    return replace(
        rule.check(CheckKind.TARGET, Status.FAIL if missed else Status.PASS, Action.WARN, ""),
        reason=f"{rule.title} {said}.",
        short_reason=None,
        estimate=estimate,
        interval=interval,
        threshold=target,
        current=estimate,
        n=n,
    )
