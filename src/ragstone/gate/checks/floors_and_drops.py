"""Is each mean at least its floor, and has none dropped by more than is allowed? In other words for ceilings and rises.

With ``decision = "evidence"`` a check passes if there is no evidence against it. A drop fails if it is shown to be a
loss on these questions, beyond their own noise (stats/losses.py), and estimated larger than is allowed; a floor fails
if the mean is shown to be below it. A check is inconclusive if there is some evidence, but not enough: a drop is
suspected; a mean is so far below its floor that chance would explain it in fewer than one of five runs; or there are
too few samples to show even a collapse.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.gate.bounds import LEAN, ROUNDING, BoundCheck
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.corrected_floors import corrected_mean
from ragstone.gate.checks.drops import decide_drops, drops_by_tag
from ragstone.gate.checks.families import Family, family_of
from ragstone.gate.checks.reasons import corrected_reason, reason_for
from ragstone.gate.comparability import differences
from ragstone.gate.confirm import is_doubt, look_at
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Interval, Status
from ragstone.stats.family import Decision, Hypothesis, decide

COLLAPSE = 0.5
"""A mean below this share of its floor, or a drop of more than the rest of 1, is never a pass for lack of samples."""

_KEYS = {way.level: way.level_key for way in (HIGHER, LOWER)} | {way.change: way.change_key for way in (HIGHER, LOWER)}


class FloorsAndDrops(Checker):
    """The floors and drops (ceilings and rises, where less is better) with one action.

    Drops are also looked for among the samples of each tag; there, only what does not pass is a check.
    """

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
        yield from self._floors(family, evidence)
        yield from self._drops(family, evidence)

    def _floors(self, family: Family, evidence: Evidence) -> Iterator[Check]:
        asked, how = family.together, evidence.policy.gate.decision
        if not asked:
            return
        slices = len({one.rule.slice for one in asked} - {None})
        hypotheses = [_hypothesis(one, evidence, slices) for one in asked]
        confidence = 1.0 - evidence.policy.alpha
        decisions = decide(hypotheses, alpha=family.alpha, confidence=confidence, seed=evidence.seed)
        for one, decision in zip(asked, decisions, strict=True):
            lean = LEAN / (1 if one.rule.slice is None else sum(one.rule.slice is not None for one in asked))
            against = decision.estimate < one.bound - ROUNDING and (
                decision.p_below <= lean or decision.estimate < COLLAPSE * one.bound
            )
            status = _status(decision, one.bound, how, against=against)
            yield _check(one, decision, status, reason_for(one, decision, status, how))

    def _drops(self, family: Family, evidence: Evidence) -> Iterator[Check]:
        asked, policy = family.drops, evidence.policy
        looks_at_tags = policy.gate.decision == "evidence" and self._action is Action.BLOCK
        tags = drops_by_tag(asked, evidence) if looks_at_tags else ()
        decisions = decide_drops((*asked, *tags), evidence)
        own = [
            _dropped(one, decision, policy.gate.decision, few=True)
            for one, decision in zip(asked, decisions[: len(asked)], strict=True)
        ]
        yield from own
        lost = {check.metric for check in own if check.status is Status.FAIL and check.slice is None}
        for one, decision in zip(tags, decisions[len(asked) :], strict=True):
            check = _dropped(one, decision, policy.gate.decision, few=False)
            found = check.status is not Status.PASS or is_doubt(check, policy.alpha, look_at(evidence.confirmed))
            if found and check.metric not in lost:
                yield check

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


def _hypothesis(one: BoundCheck, evidence: Evidence, slices: int) -> Hypothesis:
    """`one`, a floor. All slices together weigh as much as the whole set, so adding slices costs little."""
    labels = group_labels(evidence.current, one.ids)
    return Hypothesis(
        one.name,
        one.values,
        one.units,
        one.bound,
        one.bounds,
        groups=None if labels is None else labels[one.units],
        weight=1.0 if one.rule.slice is None else 1.0 / slices,
    )


def _dropped(one: BoundCheck, decision: Decision, how: str, *, few: bool) -> Check:
    """The check of a drop; with `few`, a collapse of too few samples to show it is inconclusive."""
    # If no sample got worse there is no drop to rule out, however few the samples: unchanged answers under an unchanged
    # judge differ by exactly zero, and better ones must not do worse than unchanged ones.
    unharmed = bool(np.all(one.values >= 0.0))
    against = decision.suspected or (few and decision.estimate - one.unchanged <= COLLAPSE - 1.0)
    status = Status.PASS if unharmed else _status(decision, one.bound, how, against=against)
    return _check(one, decision, status, reason_for(one, decision, status, how))


def _check(one: BoundCheck, decision: Decision, status: Status, reason: str) -> Check:
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
        detectable_drop=decision.detectable,
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
