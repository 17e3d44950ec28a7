"""Is each mean at least its floor, and has none dropped by more than is allowed? In other words for ceilings and rises.

With ``decision = "evidence"`` a check fails if it is shown to be violated, and passes if there is no evidence against
it. It is inconclusive if there is some evidence, but not enough: a drop is shown, but not one of more than is allowed;
or a mean is so far below its floor that chance would explain it in fewer than one of five runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ragstone.gate.bounds import FLOOR_WEIGHT, LEAN, ROUNDING, BoundCheck
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.corrected_floors import corrected_mean
from ragstone.gate.checks.families import family_of
from ragstone.gate.checks.reasons import corrected_reason, reason_for
from ragstone.gate.comparability import differences
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.early import watched_decisions
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Interval, Status
from ragstone.stats.family import Decision, Hypothesis, adjusted_p_values, consistent, decide

_KEYS = {way.level: way.level_key for way in (HIGHER, LOWER)} | {way.change: way.change_key for way in (HIGHER, LOWER)}


class FloorsAndDrops(Checker):
    """The floors and drops (ceilings and rises, where less is better) with one action, decided as one family."""

    kinds = (CheckKind.FLOOR, CheckKind.CEILING, CheckKind.DROP, CheckKind.RISE)
    policy_key = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        family = family_of(evidence, self._action)
        how = evidence.policy.gate.decision
        for one, labelled in family.corrected:
            decision, leans = corrected_mean(one, evidence.current, labelled, alpha=family.alpha_apart)
            status = _status(decision, one.bound, how, against=leans)
            yield _check(one, decision, status, corrected_reason(one, decision, status, len(labelled.pairs)))
        if not family.together:
            return
        hypotheses = _hypotheses(family.together, evidence)
        decisions: Sequence[Decision] = decide(hypotheses, alpha=family.alpha, seed=evidence.seed)
        if evidence.order is not None and self._action is Action.BLOCK:
            decisions = watched_decisions(family.together, decisions, evidence.order, level=evidence.watch_level)
        against = [False] * len(decisions)
        if how == "evidence":
            against = _evidence_against(family.together, hypotheses, decisions, alpha=family.alpha, seed=evidence.seed)
        for one, decision, found in zip(family.together, decisions, against, strict=True):
            yield _decided(one, decision, found, how)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if self._action is not Action.BLOCK:
            return  # the other family reports for both
        rules = [rule for rule in evidence.rules if rule.max_drop is not None]
        pairing = evidence.pairing
        if not rules:
            return
        if pairing is None:
            yield "There is no baseline, so no drop was checked."
        elif evidence.compared is None:
            yield f"No drop was checked: {' '.join(differences(pairing.comparability))}"
        else:
            skipped = pairing.comparability.skipped
            drops = {rule.metric for rule in rules}
            yield from dict.fromkeys(skipped[metric] for metric in sorted(drops & skipped.keys()))
            checked = {(check.metric, check.slice) for check in evidence.decided if check.kind in CHANGES}
            for rule in rules:
                if rule.metric in pairing.metrics and (rule.metric, rule.slice) not in checked:
                    yield f"{rule.title}: no sample has a score in both runs, so its drop was not checked."

    def key(self, check: Check) -> KeyPath:
        if check.metric is None:
            return ()
        rule = ("metrics", check.metric, _KEYS[check.kind])
        return rule if check.slice is None else ("slices", check.slice, *rule)


def _hypotheses(asked: Sequence[BoundCheck], evidence: Evidence) -> list[Hypothesis]:
    labels = group_labels(evidence.current, asked[0].ids)
    slices = len({one.rule.slice for one in asked} - {None})
    return [
        Hypothesis(
            name=one.name,
            values=one.values,
            units=one.units,
            bound=one.bound,
            bounds=one.bounds,
            groups=None if labels is None else labels[one.units],
            weight=_weight(one, slices),
            answers=one.answers,
        )
        for one in asked
    ]


def _evidence_against(
    asked: Sequence[BoundCheck],
    hypotheses: Sequence[Hypothesis],
    decisions: Sequence[Decision],
    *,
    alpha: float,
    seed: int,
) -> list[bool]:
    """For each undecided question, whether there is some evidence against it."""
    open_ = [not (decision.below or decision.above) for decision in decisions]
    slice_floors = sum(one.kind is CheckKind.FLOOR and one.rule.slice is not None for one in asked)
    found = [
        one.kind is CheckKind.FLOOR
        and decision.estimate < one.bound - ROUNDING
        and decision.p_below <= LEAN / (1 if one.rule.slice is None else slice_floors)
        for one, decision in zip(asked, decisions, strict=True)
    ]
    drops = [index for index, one in enumerate(asked) if one.kind is CheckKind.DROP]
    # If no drop is allowed, a shown drop has already failed.
    fell = [i for i in drops if open_[i] and asked[i].bound < asked[i].unchanged > decisions[i].estimate]
    if fell:
        # "No drop at all", for the same drops, as a separate family with the same error rate.
        no_drops = [replace(hypotheses[index], bound=asked[index].unchanged) for index in drops]
        _, adjusted = adjusted_p_values(no_drops, seed=seed)
        shown = {index for index, p in zip(drops, adjusted, strict=True) if p <= alpha}
        for index in fell:
            found[index] = index in shown
    return [one and is_open for one, is_open in zip(found, open_, strict=True)]


def _weight(one: BoundCheck, slices: int) -> float:
    """Shares of the error rate: all slices together weigh as much as the whole set, so adding slices costs little."""
    weight = FLOOR_WEIGHT if one.kind is CheckKind.FLOOR else 1.0
    return weight if one.rule.slice is None else weight / slices


def _decided(one: BoundCheck, decision: Decision, against: bool, how: str) -> Check:
    # If no sample got worse there is no drop to rule out, however few the samples: unchanged answers under an unchanged
    # judge differ by exactly zero, and better ones must not do worse than unchanged ones.
    unharmed = one.kind is CheckKind.DROP and bool(np.all(one.values >= 0.0))
    status = Status.PASS if unharmed else _status(decision, one.bound, how, against=against)
    if how == "evidence" and one.kind is CheckKind.DROP and not (decision.below or decision.above):
        # The family decides whether any drop is shown, so the interval must contain "no drop" exactly if none is.
        found = consistent(decision.interval, one.unchanged, below=status is Status.INCONCLUSIVE)
        decision = replace(decision, interval=found)
    return _check(one, decision, status, reason_for(one, decision, status, how))


def _check(one: BoundCheck, decision: Decision, status: Status, reason: str) -> Check:
    detectable = None
    if one.kind is CheckKind.DROP and decision.detectable is not None:
        # A score can't drop by more than 1: this few samples can't show any drop.
        detectable = drop if (drop := decision.detectable - one.bound) <= 1.0 else None
    settled = decision.below or (status is Status.PASS and decision.estimate >= one.bound)
    check = Check(
        name=one.name,
        kind=one.kind,
        status=status,
        action=one.action,
        reason=reason,
        metric=one.rule.metric,
        slice=one.rule.slice,
        estimate=decision.estimate,
        interval=Interval.of(decision.interval),
        threshold=one.bound,
        current=one.current,
        baseline=one.baseline,
        n=decision.n,
        n_more=None if settled else decision.n_more,
        detectable_drop=detectable,
        accepted=one.rule.accepted if one.kind is CheckKind.DROP else None,
        p_value=decision.p_adjusted,
    )
    return as_reported(check) if one.rule.lower_is_better else check


def _status(decision: Decision, bound: float, how: str, *, against: bool) -> Status:
    if how == "point":
        return Status.FAIL if decision.estimate < bound - ROUNDING else Status.PASS
    if decision.above:
        return Status.PASS
    if decision.below or how == "assured":
        return Status.FAIL
    return Status.INCONCLUSIVE if against else Status.PASS
