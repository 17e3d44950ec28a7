"""Says where to look first, in retrieval or in generation: by the causes of worse
samples, or else by the metrics that failed."""

from __future__ import annotations

from ragstone.formatting import counted, percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import (
    CHANGE_KINDS,
    LEVEL_KINDS,
    Attribution,
    Diagnosis,
    Side,
)
from ragstone.metrics.registry import find_metric


def attribute(evidence: Evidence, diagnosis: Diagnosis) -> Attribution | None:
    """Say where to look first. The causes of worse samples decide; if too few samples
    have one, the halves of the metrics that failed.

    None if no built-in metric failed, and either too few samples have a cause or no
    blocking check stops the run.
    """
    failed: set[str] = set()
    halves: set[Side] = set()
    for check in evidence.checks:
        metric = find_metric(check.metric or "")
        is_of_mean = check.kind in LEVEL_KINDS | CHANGE_KINDS and not check.by_words
        if metric is not None and is_of_mean and check.failed:
            failed.add(str(check.metric))
            halves.add(Side(metric.info.blames))
    side = diagnosis.side
    if not failed and (side is None or not evidence.has_blocker):
        return None
    failed_metrics = ", ".join(sorted(failed))
    reason = f"Failed: {failed_metrics}."
    if side is not None:
        retrieval = diagnosis.count_of(Side.RETRIEVAL)
        generation = diagnosis.count_of(Side.GENERATION)
        total = retrieval + generation
        share = percent(retrieval / total)
        samples = counted(total, "sample")
        reason = f"Of {samples} with a known cause, {share} failed in retrieval."
    elif halves >= {Side.RETRIEVAL, Side.GENERATION}:
        side = Side.BOTH
    elif len(halves) == 1:
        (side,) = halves
    else:
        side = Side.UNCLEAR
    return Attribution(side, reason, diagnosis.cause(side))
