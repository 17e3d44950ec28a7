"""Targets: means that hold their floor or ceiling, and still miss the ideal.

A target is compared with the estimate, not tested: it never fails a run, so no error rate is spent on it, and calling a
mean good until it is shown not to be would call every small golden set good. The reason gives the interval, and says if
it reaches the target.
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
    """A check for each target whose metric has scores; none where the floor or ceiling does not hold.

    Where there is a floor or ceiling, its estimate and interval are used.
    """

    kinds = (CheckKind.TARGET,)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        levels = {check.place: check for check in evidence.decided if check.kind in LEVELS}
        for rule in evidence.rules:
            if rule.target is None:
                continue
            level = levels.get((rule.metric, rule.slice))
            if level is None:
                mean = _mean(evidence, rule)
            elif level.status is Status.PASS and level.estimate is not None and level.interval is not None:
                of = level.interval
                mean = Estimate(level.estimate, of.low, of.high, of.confidence, of.method, level.n)
            else:
                mean = None
            if mean is not None:
                yield _check(rule, rule.target, mean)

    def key(self, check: Check) -> KeyPath:
        return rule_key(check, "target")


def _mean(evidence: Evidence, rule: Rule) -> Estimate | None:
    run = evidence.current
    values = run.scores_of(rule.metric).values
    ids = sorted(values if rule.samples is None else values.keys() & rule.samples)
    scores = [values[sample_id] for sample_id in ids]
    if not ids:
        return None
    return mean_of(run, ids, scores, confidence=evidence.policy.gate.confidence)


def _check(rule: Rule, target: float, mean: Estimate) -> Check:
    lower = rule.lower_is_better
    missed = mean.estimate > target + ROUNDING if lower else mean.estimate < target - ROUNDING
    span = interval_words(mean.low, mean.high, mean.confidence)
    text = f"is {figure(mean.estimate, target)} on {counted(mean.n, 'sample')} ({span})"
    ideal = f"the target of {threshold(target)}"
    if missed:
        includes = mean.low <= target if lower else mean.high >= target
        chance = ", which the interval includes" if includes else ""
        text = f"{text}: acceptable, not yet good: {'above' if lower else 'below'} {ideal}{chance}"
    else:
        text = f"{text}: good, {ideal} is met"
    check = rule.check(CheckKind.TARGET, Status.FAIL if missed else Status.PASS, Action.WARN, "")
    return replace(check, reason=f"{rule.title} {text}.", short_reason=None, threshold=target).measured(mean)
