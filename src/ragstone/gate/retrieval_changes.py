"""Why retrieval got worse: what became of the evidence of the samples that lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragstone.formatting import counted, some
from ragstone.gate.verdict import Comparability, RetrievalChanges
from ragstone.metrics.registry import find_metric
from ragstone.metrics.retrieval_change import EvidenceChange, evidence_of, retrieval_change
from ragstone.run.record import SampleRecord
from ragstone.run.scores import RunScores

MIN_LOSS = 0.05
"""A sample's retrieval fell if one of its retrieval scores fell by more; a grade may move a little by itself."""


def retrieval_fell(current: RunScores, baseline: RunScores, compared: Comparability) -> tuple[str, ...]:
    """The samples with a retrieval score that fell by more than MIN_LOSS, sorted."""
    found = set()
    for name in compared.metrics:
        metric = find_metric(name)
        if metric is None or metric.info.blames != "retrieval" or metric.info.lower_is_better:
            continue
        now, then = current.metrics[name].values, baseline.metrics[name].values
        found |= {sample_id for sample_id in now if then.get(sample_id, 0.0) - now[sample_id] > MIN_LOSS}
    return tuple(sorted(found))


def retrieval_changes(
    fell: Iterable[tuple[str, SampleRecord | None, SampleRecord | None]],
) -> RetrievalChanges | None:
    """What became of the evidence of samples whose retrieval fell; None if there are none.

    Each comes with its record in the current run and in the baseline, if there are any. First answers count.
    """
    gone: dict[str, float] = {}
    by_change: dict[EvidenceChange | None, list[str]] = {}
    old_ids = []
    for sample_id, now, then in fell:
        found = None
        if now is not None and then is not None and now.response.failure is None and then.response.failure is None:
            before = then.response.contexts
            evidence = evidence_of(now.sample, before, then.judgements[0] if then.judgements else None)
            found = retrieval_change(evidence, before, now.response.contexts)
        change = None if found is None else found.change
        if found is not None and change is EvidenceChange.GONE:
            gone[sample_id] = found.left
        by_change.setdefault(change, []).append(sample_id)
        if change is EvidenceChange.RECHUNKED and now and then and _named(now) < _named(then):
            old_ids.append(sample_id)
    if not by_change:
        return None
    return RetrievalChanges(
        gone=gone,
        lower=tuple(by_change.get(EvidenceChange.LOWER, ())),
        rechunked=tuple(by_change.get(EvidenceChange.RECHUNKED, ())),
        other=tuple(sorted((*by_change.get(EvidenceChange.KEPT, ()), *by_change.get(None, ())))),
        old_ids=tuple(old_ids),
    )


def _named(record: SampleRecord) -> int:
    """How many of the sample's relevant ids are among its contexts."""
    relevant = {name for name, grade in record.sample.relevant_ids.items() if grade > 0}
    return len(relevant & {context.id for context in record.response.contexts})


def retrieval_notes(found: RetrievalChanges | None) -> Iterator[str]:
    """A note on the samples whose retrieval fell, unless nothing is known of any."""
    if found is None or len(found.other) == found.fell:
        return
    parts = [
        ("is gone from what the system returns", tuple(found.gone)),
        ("ranks lower", found.lower),
        ("is still returned, in other chunks or under other ids", found.rechunked),
        ("is where it was, or not known", found.other),
    ]
    listed = "; ".join(f"on {len(ids)}, it {what} ({some(list(ids))})" for what, ids in parts if ids)
    first = listed.replace(", it ", ", the evidence ", 1)
    yield f"Retrieval got worse on {counted(found.fell, 'sample')}: {first}."


def retrieval_warnings(found: RetrievalChanges | None) -> Iterator[str]:
    """A warning about labels that name the ids of an earlier corpus."""
    if found is None or not found.old_ids:
        return
    yield (
        f"relevant_ids no longer fit the corpus: in {counted(len(found.old_ids), 'sample')} the evidence is still "
        f"returned, in other chunks or under other ids ({some(list(found.old_ids))}), so that their scores by id fell "
        "without a loss. Update the ids, or replace them with reference_contexts, which still fit when chunks change."
    )
