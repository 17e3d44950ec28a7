"""Floors and drops: from scores to hypotheses, and from decisions back to checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.columns import Columns
from ragstone.gate.comparability import Pairing
from ragstone.gate.figures import change, counted, figure, round_up, share
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.run.scores import RunScores
from ragstone.stats.family import Decision, Hypothesis, decide

_ROUNDING = 1e-9

FLOOR_WEIGHT = 0.2
"""A floor's share of the error rate against a drop's: where nothing changed, a drop sits at its bound, while a floor
mostly has slack. Chosen by `bench/gate_error_rates.py`; with floors alone it cancels out."""


@dataclass(frozen=True, slots=True)
class Question:
    """A floor or a drop, ready to be decided.

    `ids` are all samples of the run, sorted; `units` (n,) the positions in it of the samples that count here; `values`
    (n,) their scores, or what changed.
    """

    rule: Rule
    kind: CheckKind
    ids: tuple[str, ...]
    units: NDArray[np.int64]
    values: NDArray[np.float64]
    bound: float
    current: float
    baseline: float | None = None

    @property
    def samples(self) -> tuple[str, ...]:
        """The ids of the samples that count here, in the order of `values`."""
        return tuple(self.ids[unit] for unit in self.units)

    @property
    def name(self) -> str:
        base = f"{self.rule.metric}.{self.kind.value}"
        return base if self.rule.slice is None else f"{self.rule.slice}/{base}"

    @property
    def action(self) -> Action:
        return self.rule.floor_action if self.kind is CheckKind.FLOOR else self.rule.drop_action


def questions(
    current: RunScores, baseline: RunScores | None, pairing: Pairing | None, rules: Sequence[Rule]
) -> Iterator[Question]:
    """Every floor and drop that the rules ask for and that has at least one score (or pair)."""
    columns = Columns(current, baseline, pairing)
    for rule in rules:
        if rule.min is not None and (column := columns.scores(rule.metric, rule.samples)) is not None:
            mean = float(column.now.mean())
            yield Question(rule, CheckKind.FLOOR, columns.ids, column.units, column.now, rule.min, mean)
        if rule.max_drop is not None and (column := columns.pairs(rule.metric, rule.samples)) is not None:
            yield Question(
                rule,
                CheckKind.DROP,
                columns.ids,
                column.units,
                column.now - column.then,
                0.0 - rule.max_drop,  # so that no drop at all is 0.0, and not -0.0
                float(column.now.mean()),
                float(column.then.mean()),
            )


def decide_questions(
    asked: Sequence[Question],
    run: RunScores,
    policy: Policy,
    *,
    alpha: float,
    seed: int,
    revise: Callable[[Sequence[Question], Sequence[Decision]], Sequence[Decision]] | None = None,
) -> list[Check]:
    """The checks that answer `asked`, decided as one family with error rate `alpha`.

    `revise` may replace the decisions, for a run that was looked at while it went on.
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
        )
        for one in asked
    ]
    decisions: Sequence[Decision] = decide(hypotheses, alpha=alpha, seed=seed)
    if revise is not None:
        decisions = revise(asked, decisions)
    return [_check(one, decision, policy) for one, decision in zip(asked, decisions, strict=True)]


def _weight(one: Question, slices: int) -> float:
    """Shares of the error rate: all slices together weigh as much as the whole set, so adding some costs little."""
    weight = FLOOR_WEIGHT if one.kind is CheckKind.FLOOR else 1.0
    return weight if one.rule.slice is None else weight / slices


def _check(one: Question, decision: Decision, policy: Policy) -> Check:
    # Where no sample got worse there is no drop to rule out, however few the samples: unchanged answers under an
    # unchanged judge differ by exactly zero, and better ones must not do worse than unchanged ones.
    unharmed = one.kind is CheckKind.DROP and bool(np.all(one.values >= 0.0))
    status = Status.PASS if unharmed else _status(decision, one.bound, policy.gate.decision)
    found = decision.interval
    detectable = None
    if one.kind is CheckKind.DROP and decision.detectable is not None:
        # A score can't fall by more than 1: so few samples show no drop at all.
        detectable = drop if (drop := decision.detectable - one.bound) <= 1.0 else None
    return Check(
        name=one.name,
        kind=one.kind,
        status=status,
        action=one.action,
        reason=_reason(one, decision, status, policy),
        metric=one.rule.metric,
        slice=one.rule.slice,
        estimate=decision.estimate,
        interval=Interval(found.low, found.high, found.confidence, found.method),
        threshold=one.bound,
        current=one.current,
        baseline=one.baseline,
        n=decision.n,
        n_more=decision.n_more if status is not Status.PASS and not decision.below else None,
        detectable_drop=detectable,
    )


def _status(decision: Decision, bound: float, how: str) -> Status:
    if how == "point":
        return Status.FAIL if decision.estimate < bound - _ROUNDING else Status.PASS
    if decision.above:
        return Status.PASS
    if decision.below or how == "assured":
        return Status.FAIL
    return Status.INCONCLUSIVE


def _reason(one: Question, decision: Decision, status: Status, policy: Policy) -> str:
    text = _floor_reason if one.kind is CheckKind.FLOOR else _drop_reason
    sentence = f"{one.rule.title} {text(one, decision, status)}"
    if status is Status.INCONCLUSIVE or (status is Status.FAIL and policy.gate.decision == "assured"):
        sentence += _settle(decision)
    return f"{sentence}."


def _floor_reason(one: Question, decision: Decision, status: Status) -> str:
    mean, floor = figure(decision.estimate, one.bound), figure(one.bound)
    span = _span(decision, signed=False)
    n = counted(decision.n, "sample")
    if status is Status.PASS and decision.above:
        return f"is {mean} on {n} {span}: the floor of {floor} holds"
    if status is Status.PASS:
        return f"is {mean} on {n} {span}, not below the floor of {floor}"
    if status is Status.FAIL and (decision.below or decision.estimate < one.bound):
        return f"is {mean} on {n} {span}, below the floor of {floor}"
    if status is Status.FAIL:
        return f"is {mean} on {n} {span}: not shown to reach the floor of {floor}"
    return f"is {mean} on {n} {span}: the floor of {floor} is neither shown to hold nor to be missed"


def _drop_reason(one: Question, decision: Decision, status: Status) -> str:
    n = counted(decision.n, "paired sample")
    if not one.values.any():
        return f"is the same as in the baseline on each of {n}"
    moved = change(decision.estimate, one.bound)
    span = _span(decision, signed=True)
    too_much = "a drop" if one.bound == 0.0 else f"a drop of more than {figure(-one.bound)}"
    allowed = "no drop is allowed" if one.bound == 0.0 else f"a drop of {figure(-one.bound)} is allowed"
    if status is Status.FAIL and (decision.below or decision.estimate < one.bound):
        fell = figure(-decision.estimate, -one.bound)
        return f"fell by {fell} against the baseline on {n} {span}; {allowed}"
    start = f"changed by {moved} against the baseline on {n} {span}"
    if bool(np.all(one.values >= 0.0)):
        return f"{start}: not one sample got worse"
    if decision.above and status is Status.PASS:
        return f"{start}: {too_much} is ruled out"
    if status is Status.PASS:
        return f"{start}; {allowed}"
    if status is Status.FAIL:
        return f"{start}: {too_much} is not ruled out"
    return f"{start}: {too_much} is neither shown nor ruled out"


def _span(decision: Decision, *, signed: bool) -> str:
    found = decision.interval
    text = change if signed else figure
    return f"({share(found.confidence)} interval {text(found.low)} to {text(found.high)})"


def _settle(decision: Decision) -> str:
    if decision.n_more is None:
        return "; no realistic number of samples would settle it"
    if decision.n_more == 0:
        return ""
    return f"; about {counted(round_up(decision.n_more), 'more sample')} would settle it"
