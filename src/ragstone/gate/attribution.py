"""Where to look first: retrieval or generation, by the causes of worse samples, or else
by the metrics that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstone.formatting import change, counted, percent, score
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    Attribution,
    Check,
    Diagnosis,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

_HALVES = (Side.RETRIEVAL, Side.GENERATION)


def attribute(
    evidence: Evidence, diagnosis: Diagnosis | None = None
) -> Attribution | None:
    """Where to look first; None if neither a built-in metric failed nor enough samples
    that end the run have a cause.

    The causes decide; without enough of them, the halves of the metrics that failed.
    """
    failed = _failed(evidence.decided)
    side = None if diagnosis is None else diagnosis.side
    if not failed and (side is None or not _ends(evidence.decided)):
        return None
    reason = _reason(failed)
    if diagnosis is None or side is None:
        side = _side_of({_half(check) for check in failed})
    else:
        reason = f"{reason} {_by_cause(diagnosis)}".strip()
    cause = None if diagnosis is None else diagnosis.cause(side)
    return Attribution(side, reason, cause)


def _failed(checks: Iterable[Check]) -> list[Check]:
    """The failed floors and drops of built-in metrics, apart from those that only words
    show."""
    failed = []
    for check in checks:
        is_bound = check.kind in LEVELS | CHANGES and not check.by_words
        if is_bound and check.failed and find_metric(check.metric or "") is not None:
            failed.append(check)
    return failed


def _ends(checks: Iterable[Check]) -> bool:
    """Whether a blocking check fails or is not settled."""
    bad = (Status.FAIL, Status.INCONCLUSIVE)
    return any(check.blocks and check.status in bad for check in checks)


def _half(check: Check) -> Side:
    metric = find_metric(check.metric or "")
    if metric is None:
        return Side.UNCLEAR
    return Side(metric.info.blames)


def _side_of(halves: set[Side]) -> Side:
    if halves.issuperset(_HALVES):
        return Side.BOTH
    if len(halves) == 1:
        return halves.pop()
    return Side.UNCLEAR


def _reason(failed: Sequence[Check]) -> str:
    """``Retrieval: context_recall −0.14. Generation: faithfulness 0.55.``"""
    sentences = []
    for half in (*_HALVES, Side.UNCLEAR):
        moves: dict[str, str] = {}
        for check in failed:
            is_first = check.metric not in moves
            if _half(check) is half and (is_first or check.slice is None):
                moves[check.metric or ""] = _moved(check)
        if moves:
            title = half.capitalize() if half in _HALVES else "Neither half alone"
            metrics = [f"{metric} {moved}" for metric, moved in sorted(moves.items())]
            sentences.append(f"{title}: {', '.join(metrics)}.")
    return " ".join(sentences)


def _moved(check: Check) -> str:
    if check.kind in CHANGES and check.estimate is not None:
        return change(check.estimate)
    return score(check.current)


def _by_cause(diagnosis: Diagnosis) -> str:
    retrieval = diagnosis.count_of(Side.RETRIEVAL)
    samples = retrieval + diagnosis.count_of(Side.GENERATION)
    share = percent(retrieval / samples)
    return f"Of {counted(samples, 'sample')} with a known cause, {share} failed in retrieval."
