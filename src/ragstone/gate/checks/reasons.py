"""The result of a floor or a drop, in one plain sentence."""

from __future__ import annotations

import numpy as np

from ragstone.formatting import bound, change, counted, digits_for, figure, percent, round_up, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck
from ragstone.gate.verdict import CheckKind, Status
from ragstone.stats.family import Decision


def reason_for(one: BoundCheck, decision: Decision, status: Status, how: str) -> str:
    """The reason of the check for `one`; `how` is the policy's ``decision``."""
    text = _floor_reason if one.kind is CheckKind.FLOOR else _drop_reason
    sentence = f"{one.rule.title} {text(one, decision, status)}"
    if status is Status.INCONCLUSIVE or (status is Status.FAIL and how == "assured"):
        sentence += _settle(decision)
    return f"{sentence}."


def corrected_reason(one: BoundCheck, decision: Decision, status: Status, labels: int) -> str:
    """The reason of the check for a floor on the mean that people would have given, estimated with this many labels."""
    way = one.rule.direction
    return (
        f"{one.rule.title} as people would score it is {figure(way.shown(decision.estimate), way.shown(one.bound))} "
        f"({_span(one, decision)}; the judge gives {figure(way.shown(one.current))} on "
        f"{counted(decision.n, 'sample')}, corrected by {counted(labels, 'label')}): "
        f"{_against_floor(one, decision, status)}."
    )


def _floor_reason(one: BoundCheck, decision: Decision, status: Status) -> str:
    way = one.rule.direction
    found = figure(way.shown(decision.estimate), way.shown(one.bound))
    start = f"is {found} on {counted(decision.n, 'sample')} ({_span(one, decision)})"
    reached = status is Status.PASS and not decision.above and decision.estimate >= one.bound
    missed = status is Status.FAIL and (decision.below or decision.estimate < one.bound)
    return f"{start}{',' if reached or missed else ':'} {_against_floor(one, decision, status)}"


def _against_floor(one: BoundCheck, decision: Decision, status: Status) -> str:
    way = one.rule.direction
    limit = f"the {way.level} of {threshold(way.shown(one.bound))}"
    if status is Status.PASS and decision.above:
        return f"{limit} holds"
    if status is Status.PASS and decision.estimate < one.bound:
        return f"{way.beyond} {limit}, but not by more than chance explains"
    if status is Status.PASS:
        return f"not {way.beyond} {limit}"
    if status is Status.FAIL and (decision.below or decision.estimate < one.bound):
        return f"{way.beyond} {limit}"
    if status is Status.FAIL:
        return f"not shown to {'be within' if way.lower_is_better else 'reach'} {limit}"
    return f"{way.beyond} {limit}, but not shown to be"


def _drop_reason(one: BoundCheck, decision: Decision, status: Status) -> str:
    n = counted(decision.n, "paired sample")
    if not one.values.any():
        return f"is the same as in the baseline on each of {n}"
    way = one.rule.direction
    drop = way.change
    moved = change(way.shown_change(decision.estimate), digits_for(decision.estimate, [one.bound]))
    limit = threshold(-one.bound) if one.rule.accepted is None else bound(-one.bound)
    allowed = f"no {drop} is allowed" if one.bound == 0.0 else f"a {drop} of {limit} is allowed"
    if one.rule.accepted is not None:
        allowed = f"a {drop} of {limit} is accepted ({one.rule.accepted})"
    fell = f"{way.moved} by {figure(-decision.estimate, -one.bound)} from the baseline on {n}"
    if status is Status.FAIL and decision.estimate < one.bound:
        return f"{fell}; {allowed}"
    if status is Status.INCONCLUSIVE:
        return f"{fell}: suspected, but not shown" if decision.suspected else f"{fell}, too few to show even a collapse"
    start = f"changed by {moved} from the baseline on {n}"
    if bool(np.all(one.values >= 0.0)):
        return f"{start}: no sample got worse"
    if status is Status.FAIL:
        return f"{start}: a {drop} of more than {limit} is not ruled out ({_span(one, decision)})"
    if decision.estimate < one.bound - ROUNDING:
        return f"{fell}, no more than chance explains; {allowed}"
    return f"{start}; {allowed}"


def _span(one: BoundCheck, decision: Decision) -> str:
    found, way = decision.interval, one.rule.direction
    if one.kind is CheckKind.FLOOR:
        low, high = (figure(end) for end in sorted((way.shown(found.low), way.shown(found.high))))
    else:
        low, high = (change(end) for end in sorted((way.shown_change(found.low), way.shown_change(found.high))))
    return f"{percent(found.confidence)} interval {low} to {high}"


def _settle(decision: Decision) -> str:
    if decision.n_more is None:
        return "; no realistic number of samples would settle it"
    if decision.n_more == 0:
        return ""
    return f"; about {counted(round_up(decision.n_more), 'more sample')} would settle it"
