"""Targets: means that hold their floor or ceiling, and still miss the ideal.

A target is compared with the estimate, not tested: it never fails a run, so no error
rate is spent on it, and calling a mean good until it is shown not to be would call
every small golden set good. The reason gives the interval, and says if it reaches the
target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragstone.formatting import counted, figure, interval_words, threshold
from ragstone.gate.bounds import ROUNDING
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.rules import Rule
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import LEVELS, Action, Check, CheckKind, Status
from ragstone.stats.estimate import Estimate


class Targets(Checker):
    """A check for each target whose metric has scores; none where the floor or ceiling
    does not hold.

    Where there is a floor or ceiling, its estimate and interval are used.
    """

    kinds = (CheckKind.TARGET,)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        levels = {
            check.place: check for check in evidence.decided if check.kind in LEVELS
        }
        for rule in evidence.rules:
            if rule.target is None:
                continue
            level = levels.get((rule.metric, rule.slice))
            mean = _mean(evidence, rule) if level is None else _mean_that_holds(level)
            if mean is not None:
                yield _check(rule, rule.target, mean)

    def key(self, check: Check) -> KeyPath:
        return rule_key(check, "target")


def _mean_that_holds(level: Check) -> Estimate | None:
    """The mean that a floor or ceiling was decided on; None if it does not hold."""
    interval = level.interval
    if level.status is not Status.PASS or level.estimate is None or interval is None:
        return None
    return Estimate(
        level.estimate,
        interval.low,
        interval.high,
        interval.confidence,
        interval.method,
        level.n,
    )


def _mean(evidence: Evidence, rule: Rule) -> Estimate | None:
    run = evidence.current
    values = run.scores_of(rule.metric).values
    ids = sorted(values if rule.samples is None else values.keys() & rule.samples)
    scores = [values[sample_id] for sample_id in ids]
    if not ids:
        return None
    return mean_of(run, ids, scores, confidence=evidence.policy.gate.confidence)


def _check(rule: Rule, target: float, mean: Estimate) -> Check:
    ideal = f"the target of {threshold(target)}"
    if rule.lower_is_better:
        missed = mean.estimate > target + ROUNDING
        side = "above"
        in_interval = mean.low <= target
    else:
        missed = mean.estimate < target - ROUNDING
        side = "below"
        in_interval = mean.high >= target
    result = f"good, {ideal} is met"
    if missed:
        result = f"acceptable, not yet good: {side} {ideal}"
        if in_interval:
            result += ", which the interval includes"
    span = interval_words(mean.low, mean.high, mean.confidence)
    reason = f"{rule.title} is {figure(mean.estimate, target)} on {counted(mean.n, 'sample')} ({span}): {result}."
    check = rule.check(
        CheckKind.TARGET, Status.FAIL if missed else Status.PASS, Action.WARN, ""
    )
    return replace(check, reason=reason, short_reason=None, threshold=target).measured(
        mean
    )
