"""Finds samples whose retrieval got worse, and labels that name the ids of an earlier
corpus."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, join_first
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.metrics.registry import find_metric

MIN_LOSS = 0.05
"""The retrieval of a sample got worse if one of its retrieval scores fell by more: the
grades of a judge move a little by themselves."""


def samples_with_worse_retrieval(pairing: Pairing) -> set[str]:
    """The ids of samples with a retrieval score that fell by more than MIN_LOSS."""
    fell: set[str] = set()
    for name in pairing.metrics:
        metric = find_metric(name)
        if metric is None or metric.info.lower_is_better:
            continue
        if metric.info.blames == "retrieval":
            changes = pairing.changes(name).items()
            fell |= {sample_id for sample_id, change in changes if -change > MIN_LOSS}
    return fell


def outdated_ids(evidence: Evidence) -> Iterator[str]:
    """A warning about labels that name the ids of an earlier corpus."""
    outdated = evidence.explanation.outdated_ids
    if outdated:
        samples = counted(len(outdated), "sample")
        examples = join_first(list(outdated))
        yield (
            f"relevant_ids no longer fit the corpus: in {samples} the evidence is still "
            f"returned, in other chunks or under other ids ({examples}), so that their scores by id fell without "
            "a loss. Update the ids, or replace them with reference_contexts, which still fit when chunks change."
        )
