"""Is each mean at least its floor (at most its ceiling, where less is better)?

A floor is about these questions: a mean below it never passes. If the answers vary from one time to the next, the mean
of all answers fails where it is below the floor by more than their own noise; until then, it is inconclusive. Where the
baseline is below the same floor, the run did not bring that about, and fails only for what it adds. A floor that nobody
wrote, of the default rules, fails only where other questions of this kind would be below it too. With ``decision =
"assured"`` the whole interval, which is for other questions of this kind, must reach the floor; with ``"point"``, the
means alone are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ragstone.evaluation.scores import MetricScores
from ragstone.formatting import counted, figure, percent, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck, answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.corrected_floors import corrected_mean, labels_of
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.gate.word_comparison import floor_without_word_losses, words_reason
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import Floats
from ragstone.stats.normal import normal_quantile

NOISE = 0.01
"""The probability that the noise of the answers alone takes a mean that is at its floor so far below it."""

_KEYS: dict[str, str] = {way.level: way.level_key for way in (HIGHER, LOWER)}
_NO_SCORES = MetricScores({})


class Floors(Checker):
    """The floors and ceilings with one action."""

    kinds = (CheckKind.FLOOR, CheckKind.CEILING)
    policy_key = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        for floor in evidence.asked:
            if floor.kind is not CheckKind.FLOOR or floor.action is not self._action:
                continue
            labelled = labels_of(floor, evidence)
            if labelled is None:
                yield _without_word_losses(_floor(floor, evidence), floor, evidence)
            else:
                interval = corrected_mean(floor, evidence.current, labelled, alpha=NOISE)
                yield _corrected_floor(floor, interval, evidence, len(labelled.pairs))

    def key(self, check: Check) -> KeyPath:
        if check.metric is None:
            return ()
        rule = ("metrics", check.metric, _KEYS[check.kind])
        return rule if check.slice is None else ("slices", check.slice, *rule)


def _floor(floor: BoundCheck, evidence: Evidence) -> Check:
    decision = evidence.policy.gate.decision
    interval = mean_of(evidence.current, floor.samples, floor.values, confidence=evidence.policy.gate.confidence)
    if decision == "assured":
        status = Status.PASS if interval.low >= floor.bound else Status.FAIL
        return _check(floor, interval, status, _assured(floor, interval, status))
    if floor.current >= floor.bound - ROUNDING:
        return _check(floor, interval, Status.PASS, _mean(floor, "reaches"))
    if decision == "point":
        return _check(floor, interval, Status.FAIL, _mean(floor, "below"))
    reach = floor.current + normal_quantile(1.0 - NOISE) * noise_of(floor, evidence)
    before = mean_before(floor, evidence)
    if before is not None and before < floor.bound - ROUNDING:
        way = floor.rule.direction
        base = f"as the baseline is ({figure(way.shown(before), way.shown(floor.bound))})"
        return _check(floor, interval, Status.INCONCLUSIVE, f"{_mean(floor, 'below')}, {base}")
    if reach >= floor.bound:
        by_noise = f"{_mean(floor, 'below')}, by no more than its answers vary"
        return _check(floor, interval, Status.INCONCLUSIVE, by_noise, unsettled=True)
    if not floor.rule.written and interval.high >= floor.bound:
        by_default = f"{_mean(floor, 'below')}, which nobody wrote, by no more than other questions would vary"
        return _check(floor, interval, Status.INCONCLUSIVE, by_default)
    return _check(floor, interval, Status.FAIL, _mean(floor, "below"), unsettled=not _asked_again(evidence))


def _without_word_losses(check: Check, floor: BoundCheck, evidence: Evidence) -> Check:
    """`check`, which only warns if it passes without the losses that only the words of the offline judge show."""
    if check.status is Status.PASS or check.action is not Action.BLOCK:
        return check
    by_facts = floor_without_word_losses(floor, evidence)
    if by_facts is floor or _floor(by_facts, evidence).status is not Status.PASS:
        return check
    reason = f"{check.reason} {words_reason(check.metric)}"
    return replace(check, action=Action.WARN, reason=reason, by_words=True, unsettled=False)


def _corrected_floor(floor: BoundCheck, interval: Estimate, evidence: Evidence, labels: int) -> Check:
    """The check of the mean that people would have given: it fails where it is shown to be below its floor."""
    decision = evidence.policy.gate.decision
    below = interval.estimate < floor.bound - ROUNDING
    if decision == "assured":
        status = Status.PASS if interval.low >= floor.bound else Status.FAIL
    elif not below:
        status = Status.PASS
    else:
        status = Status.FAIL if decision == "point" or interval.high < floor.bound else Status.INCONCLUSIVE
    way = floor.rule.direction
    against = _against(floor, below=below or status is Status.FAIL)
    text = (
        f"as people would score it is {figure(way.shown(interval.estimate), way.shown(floor.bound))} "
        f"({_span(floor, interval)}; the judge gives {figure(way.shown(floor.current))} on "
        f"{counted(interval.n, 'sample')}, corrected by {counted(labels, 'label')}): {against}"
    )
    return _check(floor, interval, status, text)


def noise_of(floor: BoundCheck, evidence: Evidence) -> float:
    """The standard error of the mean that comes from the answers: how far it would move if all were asked again.

    Measured on the answers of this run, or else on the runs of the baseline; 0 where neither has several.
    """
    scores = evidence.current.metrics.get(floor.rule.metric, _NO_SCORES)
    own = _variances(scores, floor.samples)
    if own is not None:
        return math.sqrt(float(np.sum(own))) / len(floor.samples)
    if evidence.compared is None:
        return 0.0
    known = evidence.compared.baseline.metrics.get(floor.rule.metric, _NO_SCORES)
    each = _variances(known, floor.samples, of_the_mean=False)
    return 0.0 if each is None else math.sqrt(float(np.sum(each))) / len(floor.samples)


def _variances(scores: MetricScores, samples: tuple[str, ...], *, of_the_mean: bool = True) -> Floats | None:
    """The variance of the mean of the answers to each sample (or of a single one); None if none has several."""
    found = []
    for sample in samples:
        answers = [value for value in scores.answers.get(sample, ()) if value is not None]
        if len(answers) > 1:
            variance = float(np.var(answers, ddof=1))
            found.append(variance / len(answers) if of_the_mean else variance)
    if not found:
        return None
    missing = len(samples) - len(found)
    return np.array([*found, *[float(np.mean(found))] * missing])


def mean_before(floor: BoundCheck, evidence: Evidence) -> float | None:
    """The baseline's mean on the samples that this floor is about, more being better; None if it has none of them."""
    if evidence.compared is None:
        return None
    known = evidence.compared.baseline.metrics.get(floor.rule.metric, _NO_SCORES).values
    compared = set(evidence.compared.pairs(floor.rule.metric))
    values = [known[sample] for sample in floor.samples if sample in compared]
    return floor.rule.direction.shown(sum(values) / len(values)) if values else None


def _asked_again(evidence: Evidence) -> bool:
    """Whether more answers would say nothing new: there are several already, or they are known to be the same."""
    manifest = evidence.current.manifest
    return answers_per_sample(evidence.current) > 1 or (manifest is not None and manifest.steady)


def _mean(floor: BoundCheck, side: str) -> str:
    way = floor.rule.direction
    mean = figure(way.shown(floor.current), way.shown(floor.bound))
    return f"is {mean} on {counted(len(floor.samples), 'sample')}, {_against(floor, below=side == 'below')}"


def _against(floor: BoundCheck, *, below: bool) -> str:
    way = floor.rule.direction
    limit = f"the {way.level} of {threshold(way.shown(floor.bound))}"
    return f"{way.beyond} {limit}" if below else f"not {way.beyond} {limit}"


def _assured(floor: BoundCheck, interval: Estimate, status: Status) -> str:
    way = floor.rule.direction
    mean = figure(way.shown(interval.estimate), way.shown(floor.bound))
    limit = f"the {way.level} of {threshold(way.shown(floor.bound))}"
    shown = f"{limit} holds"
    if status is Status.FAIL:
        reach = "be within" if way.lower_is_better else "reach"
        misses = interval.estimate < floor.bound
        shown = f"{way.beyond} {limit}" if misses else f"not shown to {reach} {limit}"
    return f"is {mean} on {counted(interval.n, 'sample')} ({_span(floor, interval)}): {shown}"


def _span(floor: BoundCheck, interval: Estimate) -> str:
    way = floor.rule.direction
    low, high = sorted((way.shown(interval.low), way.shown(interval.high)))
    return f"{percent(interval.confidence)} interval {figure(low)} to {figure(high)}"


def _check(floor: BoundCheck, interval: Estimate, status: Status, text: str, *, unsettled: bool = False) -> Check:
    check = Check(
        name=floor.name,
        kind=CheckKind.FLOOR,
        status=status,
        action=floor.action,
        reason=f"{floor.rule.title} {text}.",
        metric=floor.rule.metric,
        slice=floor.rule.slice,
        estimate=interval.estimate,
        interval=Interval.of(interval),
        threshold=floor.bound,
        current=floor.current,
        n=interval.n,
        unsettled=unsettled,
    )
    return as_reported(check) if floor.rule.lower_is_better else check
