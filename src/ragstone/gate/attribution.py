"""Where to look first: retrieval or generation, by the causes of worse samples, or else
by the metrics that fell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragstone.formatting import change, counted, interval_words, percent, score
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    MIN_SAMPLES,
    Attribution,
    Check,
    Diagnosis,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

_CONFIDENCE = 0.9
"""Two-sided, so that each half is wrongly said to have dropped in at most 5 of 100
unchanged runs."""

_HALVES = (Side.RETRIEVAL, Side.GENERATION)


@dataclass(frozen=True, slots=True)
class _MetricChange:
    """The change of a metric, as it is reported."""

    metric: str
    half: Side
    change: float
    worse: bool
    """It is shown to have got worse, on enough samples."""

    def __str__(self) -> str:
        return f"{self.metric} {change(self.change)}"


def attribute(
    evidence: Evidence, diagnosis: Diagnosis | None = None
) -> Attribution | None:
    """Where to look first; None if neither a built-in metric failed nor enough samples
    that end the run have a cause.

    The causes decide. Without enough of them, a half of the system got worse if one of
    its metrics is shown to have dropped on enough samples; without a comparable
    baseline, if one of its floors was missed.
    """
    failed = list(_failed(evidence.decided))
    side_by_cause = None if diagnosis is None else diagnosis.side
    if not failed and (side_by_cause is None or not _ends(evidence.decided)):
        return None
    changes = [] if evidence.compared is None else list(_changes(evidence.compared))
    worse_halves = {metric.half for metric in changes if metric.worse}
    reason = _by_change(changes) if worse_halves else _by_level(failed)
    side = side_by_cause
    if side is None:
        failed_halves = {_half(check.metric or "") for check in failed}
        side = _side_of(worse_halves or failed_halves)
    if diagnosis is None:
        return Attribution(side, reason)
    if side_by_cause is not None:
        reason = f"{reason} {_by_cause(diagnosis)}".strip()
    return Attribution(side, reason, diagnosis.cause(side))


def _failed(checks: Iterable[Check]) -> Iterator[Check]:
    """The failed floors and drops of built-in metrics, apart from those that only words
    show."""
    for check in checks:
        is_bound = (
            check.kind in LEVELS | CHANGES
            and check.metric is not None
            and not check.by_words
        )
        if is_bound and check.failed and find_metric(check.metric or "") is not None:
            yield check


def _ends(checks: Iterable[Check]) -> bool:
    """Whether a blocking check fails or is not settled."""
    bad = (Status.FAIL, Status.INCONCLUSIVE)
    return any(check.blocks and check.status in bad for check in checks)


def _side_of(halves: set[Side]) -> Side:
    if set(_HALVES) <= halves:
        return Side.BOTH
    if len(halves) == 1:
        return next(iter(halves))
    return Side.UNCLEAR


def _changes(pairing: Pairing) -> Iterator[_MetricChange]:
    for name in pairing.metrics:
        metric = find_metric(name)
        if metric is not None:
            is_worse, change_of_mean = _mean_change(
                pairing, name, lower_is_better=metric.info.lower_is_better
            )
            yield _MetricChange(
                name, Side(metric.info.blames), change_of_mean, is_worse
            )


def _mean_change(
    pairing: Pairing, metric: str, *, lower_is_better: bool
) -> tuple[bool, float]:
    """Whether a metric is shown to have got worse, and the change of its mean."""
    direction = LOWER if lower_is_better else HIGHER
    ids = pairing.pairs(metric)
    changes = pairing.changes(metric)
    mean = mean_of(
        pairing.current, ids, changes, confidence=_CONFIDENCE, bounds=(-1.0, 1.0)
    )
    best_end = mean.low if lower_is_better else mean.high
    losses = sum(direction.shown_change(change) < 0.0 for change in changes)
    is_shown = direction.shown_change(best_end) < 0.0
    return is_shown and losses >= MIN_SAMPLES, mean.estimate


def _by_change(changes: Sequence[_MetricChange]) -> str:
    """``Retrieval: context_recall −0.14. Generation: faithfulness −0.02.``"""
    sentences = []
    for half in Side:
        is_half = half in _HALVES
        metrics = [
            metric
            for metric in changes
            if metric.half is half and (is_half or metric.worse)
        ]
        metrics.sort(key=lambda metric: (not metric.worse, metric.metric))
        if metrics:
            title = half.capitalize() if is_half else "Neither half alone"
            sentences.append(f"{title}: {', '.join(map(str, metrics[:3]))}.")
    return " ".join(sentences)


def _by_level(failed: Sequence[Check]) -> str:
    """``Outside its limits: context_recall 0.55.``"""
    overall = [check for check in failed if check.slice is None] or failed
    means = sorted({f"{check.metric} {score(check.current)}" for check in overall})
    if not means:
        return ""
    return f"Outside its limits: {', '.join(means)}."


def _by_cause(diagnosis: Diagnosis) -> str:
    samples = diagnosis.retrieval + diagnosis.generation
    share = percent(diagnosis.retrieval / samples)
    span = ""
    if diagnosis.share is not None:
        span = interval_words(
            diagnosis.share.low,
            diagnosis.share.high,
            diagnosis.share.confidence,
            percent,
        )
    return f"Of {counted(samples, 'sample')} with a known cause, {share} failed in retrieval ({span})."


def _half(name: str) -> Side:
    metric = find_metric(name)
    if metric is None:
        return Side.UNCLEAR
    return Side(metric.info.blames)
