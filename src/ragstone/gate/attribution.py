"""Where to look first: retrieval or generation, by the causes of worse samples, or else
by the metrics that failed."""

from __future__ import annotations

from collections import defaultdict

from ragstone.formatting import change, counted, percent, score
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import CHANGES, LEVELS, Attribution, Diagnosis, Side
from ragstone.metrics.registry import find_metric

_TITLES = {
    Side.RETRIEVAL: "Retrieval",
    Side.GENERATION: "Generation",
    Side.UNCLEAR: "Neither half alone",
}


def attribute(
    evidence: Evidence, diagnosis: Diagnosis | None = None
) -> Attribution | None:
    """Where to look first; None if neither a built-in metric failed nor enough samples
    that end the run have a cause.

    The causes decide; without enough of them, the halves of the metrics that failed.
    """
    moves: dict[Side, dict[str, str]] = defaultdict(dict)
    for check in evidence.decided:
        metric = find_metric(check.metric or "")
        is_bound = check.kind in LEVELS | CHANGES and not check.by_words
        if metric is None or not is_bound or not check.failed:
            continue
        name = check.metric or ""
        by_metric = moves[Side(metric.info.blames)]
        if name not in by_metric or check.slice is None:
            moved = score(check.current)
            if check.kind in CHANGES:
                moved = change(check.estimate)
            by_metric[name] = moved
    side = None if diagnosis is None else diagnosis.side
    if not moves and (side is None or not evidence.ended):
        return None
    sentences = []
    for half, title in _TITLES.items():
        if half in moves:
            metrics = [f"{name} {moved}" for name, moved in sorted(moves[half].items())]
            sentences.append(f"{title}: {', '.join(metrics)}.")
    if diagnosis is not None and side is not None:
        retrieval = diagnosis.count_of(Side.RETRIEVAL)
        samples = retrieval + diagnosis.count_of(Side.GENERATION)
        share = percent(retrieval / samples)
        sentences.append(
            f"Of {counted(samples, 'sample')} with a known cause, {share} failed in retrieval."
        )
    elif moves.keys() >= {Side.RETRIEVAL, Side.GENERATION}:
        side = Side.BOTH
    else:
        side = next(iter(moves)) if len(moves) == 1 else Side.UNCLEAR
    cause = None if diagnosis is None else diagnosis.cause(side)
    return Attribution(side, " ".join(sentences), cause)
