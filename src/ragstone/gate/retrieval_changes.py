"""Why retrieval got worse: what became of the evidence of the samples that lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ragstone.formatting import counted, some
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.sample_change import SampleChange
from ragstone.gate.verdict import MIN_SAMPLES, RetrievalChanges
from ragstone.metrics.registry import find_metric
from ragstone.metrics.retrieval_change import EvidenceChange

MIN_LOSS = 0.05
"""A sample's retrieval fell if one of its retrieval scores fell by more; a grade may
move a little by itself."""


def retrieval_fell(pairing: Pairing) -> tuple[str, ...]:
    """The samples with a retrieval score that fell by more than MIN_LOSS, sorted."""
    fell: set[str] = set()
    for name in pairing.metrics:
        metric = find_metric(name)
        if (
            metric is None
            or metric.info.blames != "retrieval"
            or metric.info.lower_is_better
        ):
            continue
        for sample_id, change in zip(
            pairing.pairs(name), pairing.changes(name), strict=True
        ):
            if -change > MIN_LOSS:
                fell.add(sample_id)
    return tuple(sorted(fell))


def retrieval_changes(
    changes: Mapping[str, SampleChange], fell: Collection[str]
) -> RetrievalChanges | None:
    """What became of the evidence of samples whose retrieval `fell`, and of those that
    lost it; None without any.

    Of some samples, the change may be missing.
    """
    lost = {sample_id for sample_id, change in changes.items() if change.evidence_lost}
    share_of_lost: dict[str, float] = {}
    lower: list[str] = []
    rechunked: list[str] = []
    elsewhere: list[str] = []
    for sample_id in sorted({*fell, *lost}):
        change = changes.get(sample_id, SampleChange())
        if change.evidence_lost:
            share_of_lost[sample_id] = change.evidence_share
        elif change.evidence_ranks_lower:
            lower.append(sample_id)
        elif change.evidence_change is EvidenceChange.RECHUNKED:
            rechunked.append(sample_id)
        else:
            elsewhere.append(sample_id)
    retrieval = RetrievalChanges(
        gone=share_of_lost,
        lower=tuple(lower),
        rechunked=tuple(rechunked),
        other=tuple(elsewhere),
        old_ids=tuple(
            sample_id for sample_id in rechunked if changes[sample_id].relevant_ids_lost
        ),
    )
    if retrieval.fell:
        return retrieval
    return None


def retrieval_notes(evidence: Evidence) -> Iterator[str]:
    """A note on the samples whose retrieval fell, if they are enough and it is known of
    one why."""
    changes = evidence.explanation.retrieval
    if (
        changes is None
        or len(changes.other) == changes.fell
        or changes.fell < MIN_SAMPLES
    ):
        return
    samples_by_fate = {
        "is gone from what the system returns": list(changes.gone),
        "ranks lower": list(changes.lower),
        "is still returned, in other chunks or under other ids": list(
            changes.rechunked
        ),
        "is where it was, in other words, or not known": list(changes.other),
    }
    parts = [
        f"on {len(samples)}, the evidence {fate} ({some(samples)})"
        for fate, samples in samples_by_fate.items()
        if samples
    ]
    yield f"Retrieval got worse on {counted(changes.fell, 'sample')}: {'; '.join(parts)}."


def retrieval_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning about labels that name the ids of an earlier corpus."""
    changes = evidence.explanation.retrieval
    if changes is not None and changes.old_ids:
        yield (
            f"relevant_ids no longer fit the corpus: in {counted(len(changes.old_ids), 'sample')} the evidence is "
            f"still returned, in other chunks or under other ids ({some(list(changes.old_ids))}), so that their scores "
            "by id fell without a loss. Update the ids, or replace them with reference_contexts, which still fit when "
            "chunks change."
        )
