"""Targets: means that hold their floor or ceiling, and still miss the ideal.

A target is compared with the estimate, not tested: it never fails a run, so no error rate is spent on it, and calling a
mean good until it is shown not to be would call every small golden set good. The reason gives the interval, and says if
it reaches the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragstone.formatting import counted, figure, percent, threshold
from ragstone.gate.bounds import ROUNDING
from ragstone.gate.grouping import group_labels
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import LEVELS, Action, Check, CheckKind, Interval, Status
from ragstone.gate.warnings import is_below_by_chance
from ragstone.run.scores import RunScores
from ragstone.stats.intervals import mean_interval


def target_checks(run: RunScores, rules: Sequence[Rule], checks: Sequence[Check], confidence: float) -> Iterator[Check]:
    """A check for each target whose metric has scores; none where the floor or ceiling does not hold.

    `checks` are those of the floors and ceilings: where there is one, its estimate and interval are used.
    """
    levels = {(check.metric, check.slice): check for check in checks if check.kind in LEVELS}
    for rule in rules:
        level = levels.get((rule.metric, rule.slice))
        holds = level is None or (level.status is Status.PASS and not is_below_by_chance(level))
        if rule.target is None or not holds:
            continue
        found = _measured(run, rule, confidence) if level is None else (level.estimate, level.interval, level.n)
        if found is not None and found[0] is not None and found[1] is not None:
            yield _check(rule, rule.target, found[0], found[1], found[2])


def _measured(run: RunScores, rule: Rule, confidence: float) -> tuple[float, Interval, int] | None:
    if rule.metric not in run.metrics:
        return None
    values = run.metrics[rule.metric].values
    ids = sorted(values if rule.samples is None else values.keys() & rule.samples)
    if not ids:
        return None
    groups = group_labels(run, {sample_id: index for index, sample_id in enumerate(ids)})
    scores = np.array([values[sample_id] for sample_id in ids], dtype=np.float64)
    found = mean_interval(scores, confidence=confidence, bounds=(0.0, 1.0), groups=groups)
    return found.estimate, Interval(found.low, found.high, found.confidence, found.method), len(ids)


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
    base = f"{rule.metric}.{CheckKind.TARGET.value}"
    return Check(
        name=base if rule.slice is None else f"{rule.slice}/{base}",
        kind=CheckKind.TARGET,
        status=Status.FAIL if missed else Status.PASS,
        action=Action.WARN,
        reason=f"{rule.title} {said}.",
        metric=rule.metric,
        slice=rule.slice,
        estimate=estimate,
        interval=interval,
        threshold=target,
        current=estimate,
        n=n,
    )
