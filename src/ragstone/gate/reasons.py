"""The result of a floor or a drop, in one plain sentence."""

from __future__ import annotations

import numpy as np

from ragstone.formatting import bound, change, counted, digits_for, figure, percent, round_up
from ragstone.gate.policy import Policy
from ragstone.gate.rules import BoundCheck
from ragstone.gate.verdict import CheckKind, Status
from ragstone.stats.family import Decision


def reason_for(one: BoundCheck, decision: Decision, status: Status, policy: Policy) -> str:
    """The reason of the check for `one`."""
    text = _floor_reason if one.kind is CheckKind.FLOOR else _drop_reason
    sentence = f"{one.rule.title} {text(one, decision, status)}"
    if status is Status.INCONCLUSIVE or (status is Status.FAIL and policy.gate.decision == "assured"):
        sentence += _settle(decision)
    return f"{sentence}."


def _floor_reason(one: BoundCheck, decision: Decision, status: Status) -> str:
    mean, floor = figure(decision.estimate, one.bound), figure(one.bound)
    span = _span(decision, signed=False)
    n = counted(decision.n, "sample")
    if status is Status.PASS and decision.above:
        return f"is {mean} on {n} {span}: the floor of {floor} holds"
    if status is Status.PASS and decision.estimate < one.bound:
        return f"is {mean} on {n} {span}: below the floor of {floor}, but not by more than chance explains"
    if status is Status.PASS:
        return f"is {mean} on {n} {span}, not below the floor of {floor}"
    if status is Status.FAIL and (decision.below or decision.estimate < one.bound):
        return f"is {mean} on {n} {span}, below the floor of {floor}"
    if status is Status.FAIL:
        return f"is {mean} on {n} {span}: not shown to reach the floor of {floor}"
    return f"is {mean} on {n} {span}: below the floor of {floor}, but not shown to be"


def _drop_reason(one: BoundCheck, decision: Decision, status: Status) -> str:
    n = counted(decision.n, "paired sample")
    if not one.values.any():
        return f"is the same as in the baseline on each of {n}"
    moved = change(decision.estimate, digits_for(decision.estimate, [one.bound]))
    span = _span(decision, signed=True)
    too_much = "a drop" if one.bound == 0.0 else f"a drop of more than {figure(-one.bound)}"
    allowed = "no drop is allowed" if one.bound == 0.0 else f"a drop of {figure(-one.bound)} is allowed"
    if one.rule.accepted is not None:
        too_much = f"a drop of more than {bound(-one.bound)}"
        allowed = f"a drop of {bound(-one.bound)} is accepted ({one.rule.accepted})"
    fell = f"dropped by {figure(-decision.estimate, -one.bound)} from the baseline on {n} {span}"
    if status is Status.FAIL and (decision.below or decision.estimate < one.bound):
        return f"{fell}; {allowed}"
    start = f"changed by {moved} from the baseline on {n} {span}"
    if bool(np.all(one.values >= 0.0)):
        return f"{start}: no sample got worse"
    if decision.above and status is Status.PASS:
        return f"{start}: {too_much} is ruled out"
    if status is Status.PASS and one.rule.accepted is not None:
        return f"{start}; {allowed}"
    if status is Status.PASS and decision.interval.low < one.unchanged:
        return f"{start}: no drop is shown, and one of more than {figure(-decision.interval.low)} is ruled out"
    if status is Status.PASS:
        return f"{start}; {allowed}"
    if status is Status.FAIL:
        return f"{start}: {too_much} is not ruled out"
    return f"{fell}: a drop is shown, but not one of more than the {figure(-one.bound)} allowed"


def _span(decision: Decision, *, signed: bool) -> str:
    found = decision.interval
    text = change if signed else figure
    return f"({percent(found.confidence)} interval {text(found.low)} to {text(found.high)})"


def _settle(decision: Decision) -> str:
    if decision.n_more is None:
        return "; no realistic number of samples would settle it"
    if decision.n_more == 0:
        return ""
    return f"; about {counted(round_up(decision.n_more), 'more sample')} would settle it"
