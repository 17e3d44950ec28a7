"""Is each mean at least its floor (at most its ceiling, where less is better)?

A floor is about these questions: a mean below it never passes. If the answers vary from
one time to the next, the mean of all answers fails where it is below the floor by more
than their own noise; until then, it is inconclusive. Where the baseline is below the
same floor, the run did not bring that about, and fails only for what it adds. A floor
that nobody wrote, of the default rules, fails only where other questions of this kind
would be below it too. With ``decision = "assured"`` the whole interval, which is for
other questions of this kind, must reach the floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, figure, interval_words, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck, answers_per_sample
from ragstone.gate.calibration import MetricCalibration
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.checks.corrected_floors import corrected_mean, labels_of
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.gate.word_comparison import floor_without_word_losses, words_reason
from ragstone.stats.estimate import Estimate

NOISE = 0.01
"""The probability that the noise of the answers alone takes a mean that is at its floor
so far below it."""

_KEYS: dict[str, str] = {way.level: way.level_key for way in (HIGHER, LOWER)}


class Floors(Checker):
    """The floors and ceilings with one action."""

    kinds = (CheckKind.FLOOR, CheckKind.CEILING)
    policy_key = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        for floor in evidence.bound_checks:
            if floor.kind is CheckKind.FLOOR and floor.action is self._action:
                yield _without_word_losses(_floor(floor, evidence), floor, evidence)

    def key(self, check: Check) -> KeyPath:
        return rule_key(check, _KEYS[check.kind])


def _floor(floor: BoundCheck, evidence: Evidence) -> Check:
    labels = labels_of(floor, evidence)
    if labels is not None:
        return _corrected_floor(floor, labels, evidence)
    confidence = evidence.policy.gate.confidence
    mean = mean_of(evidence.current, floor.samples, floor.values, confidence=confidence)
    if evidence.policy.gate.decision == "assured":
        return _assured(floor, mean)
    if mean.estimate >= floor.bound - ROUNDING:
        return _check(floor, mean, Status.PASS)
    baseline_mean = _baseline_mean(floor, evidence)
    if baseline_mean is not None and baseline_mean < floor.bound - ROUNDING:
        return _check(floor, mean, Status.INCONCLUSIVE, ", as the baseline is")
    noise = NormalDist().inv_cdf(1.0 - NOISE) * noise_of(floor, evidence)
    if mean.estimate + noise >= floor.bound:
        why = ", by no more than its answers vary"
        return _check(floor, mean, Status.INCONCLUSIVE, why, unsettled=True)
    if not floor.rule.written and mean.high >= floor.bound:
        why = ", which nobody wrote, by no more than other questions would vary"
        return _check(floor, mean, Status.INCONCLUSIVE, why)
    # More answers would say nothing new where there are several already, or they are
    # known to be the same.
    is_settled = answers_per_sample(evidence.current) > 1 or evidence.current.steady
    return _check(floor, mean, Status.FAIL, unsettled=not is_settled)


def _corrected_floor(
    floor: BoundCheck, labels: MetricCalibration, evidence: Evidence
) -> Check:
    """A floor on the mean as people would score it."""
    mean = corrected_mean(floor, evidence.current, labels, alpha=NOISE)
    judged = figure(floor.rule.direction.shown(floor.current))
    source = f", as people would score it (the judge gives {judged}, corrected by {len(labels.pairs):,} labels)"
    if evidence.policy.gate.decision == "assured":
        return _assured(floor, mean, source)
    status = Status.INCONCLUSIVE
    if mean.estimate >= floor.bound - ROUNDING:
        status = Status.PASS
    elif mean.high < floor.bound:
        status = Status.FAIL
    return _check(floor, mean, status, source)


def _assured(floor: BoundCheck, mean: Estimate, source: str = "") -> Check:
    """A floor that the whole interval must reach."""
    shown = floor.rule.direction.shown
    low, high = sorted([shown(mean.low), shown(mean.high)])
    span = interval_words(low, high, mean.confidence)
    status = Status.PASS if mean.low >= floor.bound else Status.FAIL
    why = f"{source} ({span}, which must reach it as a whole)"
    return _check(floor, mean, status, why)


def _without_word_losses(check: Check, floor: BoundCheck, evidence: Evidence) -> Check:
    """`check`, which only warns if it passes without the losses that only the words of
    the offline judge show."""
    if check.passed or not check.blocks or labels_of(floor, evidence) is not None:
        return check
    by_facts = floor_without_word_losses(floor, evidence)
    if by_facts is floor or _floor(by_facts, evidence).status is not Status.PASS:
        return check
    reason = f"{check.reason} {words_reason(check.metric)}"
    return replace(
        check, action=Action.WARN, reason=reason, by_words=True, unsettled=False
    )


def noise_of(floor: BoundCheck, evidence: Evidence) -> float:
    """The standard error of the mean that comes from the answers: how far it would move
    if all were asked again.

    Measured on the answers of this run, or else on the runs of the baseline; 0 where
    neither has several.
    """
    variance = _variance(evidence.current, floor, of_the_mean=True)
    if variance is None and evidence.compared is not None:
        variance = _variance(evidence.compared.baseline, floor, of_the_mean=False)
    return math.sqrt((variance or 0.0) / len(floor.samples))


def _variance(run: RunScores, floor: BoundCheck, *, of_the_mean: bool) -> float | None:
    """The variance of the mean of the answers to a sample (or of a single one); None if
    no sample has several."""
    answers_of = run.scores_of(floor.rule.metric).answers
    variances = []
    for sample_id in floor.samples:
        scores = [score for score in answers_of.get(sample_id, ()) if score is not None]
        if len(scores) > 1:
            variance = float(np.var(scores, ddof=1))
            variances.append(variance / len(scores) if of_the_mean else variance)
    if not variances:
        return None
    return float(np.mean(variances))


def _baseline_mean(floor: BoundCheck, evidence: Evidence) -> float | None:
    """The baseline's mean on the samples that this floor is about, more being better;
    None if it has none of them."""
    if evidence.compared is None:
        return None
    scores = evidence.compared.baseline.scores_of(floor.rule.metric).values
    compared = set(evidence.compared.pairs(floor.rule.metric))
    values = [scores[sample_id] for sample_id in floor.samples if sample_id in compared]
    if not values:
        return None
    return floor.rule.direction.shown(sum(values) / len(values))


def _check(
    floor: BoundCheck,
    mean: Estimate,
    status: Status,
    why: str = "",
    *,
    unsettled: bool = False,
) -> Check:
    """The check of a floor; `why` ends its reason."""
    rule = floor.rule
    direction = rule.direction
    limit = direction.shown(floor.bound)
    value = figure(direction.shown(mean.estimate), limit)
    side = (
        direction.beyond
        if mean.estimate < floor.bound - ROUNDING
        else f"not {direction.beyond}"
    )
    reason = (
        f"{rule.title} is {value} on {counted(mean.n, 'sample')}, {side} the "
        f"{direction.level} of {threshold(limit)}{why}."
    )
    check = Check(
        floor.name,
        CheckKind.FLOOR,
        status,
        floor.action,
        reason,
        rule.metric,
        rule.slice,
    )
    check = replace(
        check.measured(mean),
        threshold=floor.bound,
        current=floor.current,
        unsettled=unsettled,
    )
    if rule.lower_is_better:
        return as_reported(check)
    return check
