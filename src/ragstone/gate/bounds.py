"""Floors and drops: from scores to hypotheses, and from decisions back to checks.

With ``decision = "evidence"`` a check fails if it is shown to be violated, and passes if there is no evidence against
it. It is inconclusive if there is some evidence, but not enough: a drop is shown, but not one of more than is allowed;
or a mean is so far below its floor that chance would explain it in fewer than one of five runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ragstone.gate.columns import Columns
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import as_reported
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.reasons import reason_for
from ragstone.gate.rules import BoundCheck, Rule
from ragstone.gate.verdict import Check, CheckKind, Interval, Status
from ragstone.run.scores import RunScores
from ragstone.stats.family import Decision, Hypothesis, adjusted_p_values, decide

ROUNDING = 1e-9

FLOOR_WEIGHT = 0.2
"""A floor's weight in the error rate relative to a drop's: if nothing changed, a drop is at its bound, while a floor
usually has slack. Chosen with `bench/gate_error_rates.py`; with floors alone it cancels out."""

LEAN = 0.2
"""A mean below its floor counts as evidence if a system exactly at the floor would score as low in fewer than this
share of runs. Counting every mean below its floor would be too strict: of runs on 20 samples whose true means are 10
points above their floors, up to half have one (`bench/gate_error_rates.py`). All slices together get as much as one
floor.
"""


def questions(
    current: RunScores, baseline: RunScores | None, pairing: Pairing | None, rules: Sequence[Rule]
) -> Iterator[BoundCheck]:
    """Every floor and drop in the rules that has at least one score (or pair)."""
    columns = Columns(current, baseline, pairing)
    for rule in rules:
        lower = rule.lower_is_better
        column = columns.scores(rule.metric, rule.samples, lower_is_better=lower) if rule.min is not None else None
        if rule.min is not None and column is not None:
            mean = float(column.now.mean())
            yield BoundCheck(rule, CheckKind.FLOOR, columns.ids, column.units, column.now, rule.min, mean)
        column = columns.pairs(rule.metric, rule.samples, lower_is_better=lower) if rule.max_drop is not None else None
        if rule.max_drop is not None and column is not None:
            yield BoundCheck(
                rule,
                CheckKind.DROP,
                columns.ids,
                column.units,
                column.now - column.then,
                0.0 - rule.max_drop,  # so that no drop is 0.0, not -0.0
                float(column.now.mean()),
                float(column.then.mean()),
                # An accepted drop is fully allowed: more than that fails, and up to there nothing is inconclusive.
                unchanged=0.0 if rule.accepted is None else 0.0 - rule.max_drop,
                answers=column.answers,
            )


def decide_questions(
    asked: Sequence[BoundCheck],
    run: RunScores,
    policy: Policy,
    *,
    alpha: float,
    seed: int,
    revise: Callable[[Sequence[BoundCheck], Sequence[Decision]], Sequence[Decision]] | None = None,
) -> list[Check]:
    """The checks for `asked`, decided as one family with error rate `alpha`.

    `revise` can replace the decisions, for a run that was monitored while it ran.
    """
    labels = group_labels(run, {sample_id: index for index, sample_id in enumerate(asked[0].ids)}) if asked else None
    slices = len({one.rule.slice for one in asked} - {None})
    hypotheses = [
        Hypothesis(
            name=one.name,
            values=one.values,
            units=one.units,
            bound=one.bound,
            bounds=(0.0, 1.0) if one.kind is CheckKind.FLOOR else (-1.0, 1.0),
            groups=None if labels is None else labels[one.units],
            weight=_weight(one, slices),
            answers=one.answers,
        )
        for one in asked
    ]
    decisions: Sequence[Decision] = decide(hypotheses, alpha=alpha, seed=seed)
    if revise is not None:
        decisions = revise(asked, decisions)
    if policy.gate.decision == "evidence":
        against = _evidence_against(asked, hypotheses, decisions, alpha=alpha, seed=seed)
    else:
        against = [False] * len(asked)
    return [
        _check(one, decision, found, policy) for one, decision, found in zip(asked, decisions, against, strict=True)
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


def _check(one: BoundCheck, decision: Decision, against: bool, policy: Policy) -> Check:
    # If no sample got worse there is no drop to rule out, however few the samples: unchanged answers under an unchanged
    # judge differ by exactly zero, and better ones must not do worse than unchanged ones.
    unharmed = one.kind is CheckKind.DROP and bool(np.all(one.values >= 0.0))
    status = Status.PASS if unharmed else _status(decision, one.bound, policy.gate.decision, against=against)
    evidence = policy.gate.decision == "evidence"
    if evidence and one.kind is CheckKind.DROP and not (decision.below or decision.above):
        decision = _consistent(decision, one.unchanged, below=status is Status.INCONCLUSIVE)
    found = decision.interval
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
        reason=reason_for(one, decision, status, policy),
        metric=one.rule.metric,
        slice=one.rule.slice,
        estimate=decision.estimate,
        interval=Interval(found.low, found.high, found.confidence, found.method),
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


def _consistent(decision: Decision, unchanged: float, *, below: bool) -> Decision:
    """Adjust the interval to contain "no drop at all" exactly if no drop is shown, because the family decides that."""
    found = decision.interval
    if below and found.high >= unchanged:
        return replace(decision, interval=replace(found, high=float(np.nextafter(unchanged, -np.inf))))
    if not below and found.high < unchanged:
        return replace(decision, interval=replace(found, high=unchanged))
    return decision
