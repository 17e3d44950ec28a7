"""Where to look first: retrieval or generation, by the causes of worse samples, or else by the metrics that fell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstone.formatting import change, counted, figure, percent
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    MIN_SAMPLES,
    Action,
    Attribution,
    Check,
    CheckKind,
    Diagnosis,
    RetrievalChanges,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

_CONFIDENCE = 0.9
"""Two-sided, so that each half is wrongly said to have dropped in at most 5 of 100 unchanged runs."""

_COLLAPSE = -0.5
"""A change of all of fewer samples than MIN_SAMPLES counts from here on."""

_HALVES = (Side.RETRIEVAL, Side.GENERATION)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The change of a metric, as it is reported; `fell`: it is shown to have got worse, on enough samples."""

    metric: str
    estimate: float
    fell: bool
    direction: Direction


def attribute(
    evidence: Evidence, diagnosis: Diagnosis | None = None, retrieval: RetrievalChanges | None = None
) -> Attribution | None:
    """Where to look first; None if neither a built-in metric failed nor enough samples that end the run have a cause.

    The causes decide. Without enough of them, a half of the system got worse if one of its metrics is shown to have
    dropped on enough samples; without a comparable baseline, if one of its floors was missed.
    """
    failed = [
        check
        for check in evidence.decided
        if check.status is Status.FAIL
        and check.metric
        and check.kind in LEVELS | CHANGES
        and find_metric(check.metric) is not None
    ]
    ends = any(
        one.action is Action.BLOCK and one.status in (Status.FAIL, Status.INCONCLUSIVE) for one in evidence.decided
    )
    by_cause = None if diagnosis is None else diagnosis.side
    if not failed and (by_cause is None or not ends):
        return None
    moved = [] if evidence.compared is None else _moved(evidence.compared)
    fallen = {half: [one for one in moved if one.fell and _half(one.metric) is half] for half in Side}
    if any(fallen.values()):
        side = by_cause or _side_of({half for half in _HALVES if fallen[half]})
        intact = retrieval is None or retrieval.fell < MIN_SAMPLES
        reasons = [_by_change(side, fallen, moved, intact=intact)]
    else:
        halves = {_half(check.metric or "") for check in failed}
        side = by_cause or _side_of(halves)
        reasons = [_by_floor(side, failed)] if failed and side is _side_of(halves) else []
    if by_cause is not None and diagnosis is not None and diagnosis.share is not None:
        n, share = diagnosis.retrieval + diagnosis.generation, diagnosis.share
        span = f"{percent(share.confidence)} interval {percent(share.low)} to {percent(share.high)}"
        part = percent(diagnosis.retrieval / n)
        reasons.append(f"Of {counted(n, 'sample')} with a known cause, {part} failed in retrieval ({span}).")
    return Attribution(side, " ".join(reasons), None if diagnosis is None else diagnosis.cause(side))


def _side_of(halves: set[Side]) -> Side:
    if set(_HALVES) <= halves:
        return Side.BOTH
    return next(iter(halves)) if len(halves) == 1 else Side.UNCLEAR


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
        worse = sum(way.shown_change(one) < 0.0 for one in changes)
        enough = worse >= MIN_SAMPLES or (worse == len(ids) and way.shown_change(interval.estimate) <= _COLLAPSE)
        if len(ids) >= MIN_SAMPLES or enough:
            found.append(_Moved(metric, interval.estimate, fell and enough, way))
    return found


def _by_change(side: Side, fallen: Mapping[Side, Sequence[_Moved]], moved: Sequence[_Moved], *, intact: bool) -> str:
    """The metrics that fell, those of `side` first. `intact`: the retrieval of hardly any sample got worse."""
    first, second = _HALVES if side is not Side.GENERATION else _HALVES[::-1]
    if not fallen[first] and not fallen[second]:
        rest = [one for one in moved if one.fell]
        said = f"The metrics that {_verb(rest)} ({_changes(rest)})"
        return f"{said} point at neither retrieval nor generation alone." if side is Side.UNCLEAR else f"{said}."
    depends = ", but answers depend on what was retrieved" if side is not Side.GENERATION else ""
    if fallen[first] and fallen[second]:
        fell = f"{first.capitalize()} {_verb(fallen[first])} ({_changes(fallen[first])})"
        return f"{fell} and so did {second} ({_changes(fallen[second])}){depends}."
    half = first if fallen[first] else second
    text = f"{half.capitalize()} {_verb(fallen[half])} ({_changes(fallen[half])})"
    if half is not side:
        return f"{text}{depends if half is Side.GENERATION else ''}."
    return f"{text}{_other(moved, second, intact=intact)}."


def _other(moved: Iterable[_Moved], half: Side, *, intact: bool) -> str:
    """That the other half did not get worse; no more than is known."""
    others = [one for one in moved if _half(one.metric) is half]
    if not others:
        return f"; {half} was not measured"
    steady = all(one.direction.shown_change(one.estimate) > -0.005 for one in others)
    unshown = half is Side.RETRIEVAL and not intact
    return f"; {half} {'is not shown to have' if unshown or not steady else 'did not'} ({_changes(others)})"


def _by_floor(side: Side, failed: Sequence[Check]) -> str:
    overall = [check for check in failed if check.slice is None] or failed
    means = {check.metric: check.current for check in reversed(overall) if check.current is not None}
    shown = ", ".join(f"{metric} {figure(mean)}" for metric, mean in sorted(means.items(), key=lambda one: str(one[0])))
    floors = not any(check.kind in {CheckKind.CEILING, CheckKind.RISE} for check in failed)
    limits = "below {} floors" if floors else "outside {} limits"
    its, their = limits.format("its"), limits.format("their")
    if side in _HALVES:
        return f"Only {side} is {its} ({shown})."
    if side is Side.BOTH:
        return f"Retrieval and generation are {their} ({shown})."
    return f"The metrics {their} ({shown}) point at neither half alone."


def _half(metric: str) -> Side:
    known = find_metric(metric)
    return Side.UNCLEAR if known is None else Side(known.info.blames)


def _changes(moved: Iterable[_Moved]) -> str:
    ordered = sorted(moved, key=lambda one: (one.direction.shown_change(one.estimate), one.metric))
    return ", ".join(f"{one.metric} {change(one.estimate)}" for one in ordered[:3])


def _verb(moved: Iterable[_Moved]) -> str:
    return "got worse" if any(one.direction.lower_is_better for one in moved) else "dropped"
