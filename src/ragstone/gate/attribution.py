"""Attributes a regression to retrieval or generation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragstone.formatting import change, counted, figure, percent
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.verdict import CHANGES, LEVELS, Attribution, Check, CheckKind, Diagnosis, Side, Status
from ragstone.metrics.registry import find_metric

_CONFIDENCE = 0.9
"""Two-sided, so that each half is wrongly said to have dropped in at most 5 of 100 unchanged runs."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """The change of a metric, as it is reported; `fell`: it is shown to have got worse."""

    metric: str
    estimate: float
    fell: bool
    direction: Direction


def attribute(evidence: Evidence) -> Attribution | None:
    """Where to look first, based on the metrics that changed; None if no built-in metric failed.

    With a comparable baseline, a half of the system got worse if one of its metrics is shown to have dropped; without
    one, if one of its floors was missed.
    """
    failed = [
        check
        for check in evidence.decided
        if check.status is Status.FAIL
        and check.metric
        and check.kind in LEVELS | CHANGES
        and find_metric(check.metric) is not None
    ]
    if not failed:
        return None
    if evidence.compared is not None:
        moved = _moved(evidence.compared)
        if any(one.fell for one in moved):
            return _by_change(moved)
    return _by_floor(failed)


def by_cause(found: Attribution | None, diagnosis: Diagnosis | None) -> Attribution | None:
    """`found` with the causes of the worse samples: their share decides if its interval excludes one half."""
    if found is None or diagnosis is None or diagnosis.share is None:
        return found
    n, share = diagnosis.retrieval + diagnosis.generation, diagnosis.share
    side = found.side
    if share.low > _HALF:
        side = Side.RETRIEVAL
    elif share.high < _HALF:
        side = Side.GENERATION
    span = f"{percent(share.confidence)} interval {percent(share.low)} to {percent(share.high)}"
    part = percent(diagnosis.retrieval / n)
    said = f"Of {counted(n, 'sample')} with a known cause, {part} failed in retrieval ({span})."
    return Attribution(side, f"{found.reason} {said}")


_HALF = 0.5


def _moved(pairing: Pairing) -> list[_Moved]:
    found = []
    for metric in pairing.metrics:
        known = find_metric(metric)
        if known is None:
            continue
        way = LOWER if known.info.lower_is_better else HIGHER
        ids, changes = pairing.pairs(metric), pairing.changes(metric)
        interval = mean_of(pairing.current, ids, changes, confidence=_CONFIDENCE, bounds=(-1.0, 1.0))
        fell = interval.low > 0.0 if way.lower_is_better else interval.high < 0.0
        found.append(_Moved(metric, interval.estimate, fell, way))
    return found


def _by_change(moved: Sequence[_Moved]) -> Attribution:
    fallen = {half: [one for one in moved if one.fell and _half(one.metric) == half] for half in _HALVES}
    retrieval, generation = fallen[Side.RETRIEVAL], fallen[Side.GENERATION]
    if retrieval and generation:
        reason = (
            f"Retrieval {_verb(retrieval)} ({_changes(retrieval)}) and so did generation ({_changes(generation)}), "
            "but answers depend on what was retrieved."
        )
        return Attribution(Side.BOTH, reason)
    if retrieval:
        still = _steady(moved, Side.GENERATION)
        return Attribution(Side.RETRIEVAL, f"Retrieval {_verb(retrieval)} ({_changes(retrieval)}){still}.")
    if generation:
        still = _steady(moved, Side.RETRIEVAL)
        return Attribution(Side.GENERATION, f"Generation {_verb(generation)} ({_changes(generation)}){still}.")
    rest = [one for one in moved if one.fell]
    return Attribution(
        Side.UNCLEAR,
        f"The metrics that {_verb(rest)} ({_changes(rest)}) point at neither retrieval nor generation alone.",
    )


def _steady(moved: Iterable[_Moved], half: Side) -> str:
    others = [one for one in moved if _half(one.metric) == half]
    word = "retrieval" if half is Side.RETRIEVAL else "generation"
    return f"; {word} did not ({_changes(others)})" if others else f"; {word} was not measured"


def _by_floor(failed: Sequence[Check]) -> Attribution:
    halves = {_half(check.metric or "") for check in failed}
    overall = [check for check in failed if check.slice is None] or failed
    means = {check.metric: check.current for check in reversed(overall) if check.current is not None}
    shown = ", ".join(f"{metric} {figure(mean)}" for metric, mean in sorted(means.items(), key=lambda one: str(one[0])))
    floors = not any(check.kind in {CheckKind.CEILING, CheckKind.RISE} for check in failed)
    limits = "below {} floors" if floors else "outside {} limits"
    its, their = limits.format("its"), limits.format("their")
    if halves == {Side.RETRIEVAL}:
        return Attribution(Side.RETRIEVAL, f"Only retrieval is {its} ({shown}).")
    if halves == {Side.GENERATION}:
        return Attribution(Side.GENERATION, f"Only generation is {its} ({shown}).")
    if {Side.RETRIEVAL, Side.GENERATION} <= halves:
        return Attribution(Side.BOTH, f"Retrieval and generation are {their} ({shown}): look at retrieval first.")
    return Attribution(Side.UNCLEAR, f"The metrics {their} ({shown}) point at neither half alone.")


_HALVES = (Side.RETRIEVAL, Side.GENERATION)


def _half(metric: str) -> Side:
    known = find_metric(metric)
    return Side.UNCLEAR if known is None else Side(known.info.blames)


def _changes(moved: Iterable[_Moved]) -> str:
    ordered = sorted(moved, key=lambda one: (one.direction.shown_change(one.estimate), one.metric))
    return ", ".join(f"{one.metric} {change(one.estimate)}" for one in ordered[:3])


def _verb(moved: Iterable[_Moved]) -> str:
    return "got worse" if any(one.direction.lower_is_better for one in moved) else "dropped"
