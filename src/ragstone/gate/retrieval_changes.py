"""Why retrieval got worse: what became of the evidence of the samples that lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ragstone.formatting import counted, some
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.facts import Facts
from ragstone.gate.verdict import MIN_SAMPLES, RetrievalChanges
from ragstone.metrics.registry import find_metric
from ragstone.metrics.retrieval_change import EvidenceChange

MIN_LOSS = 0.05
"""A sample's retrieval fell if one of its retrieval scores fell by more; a grade may move a little by itself."""


def retrieval_fell(compared: Pairing) -> tuple[str, ...]:
    """The samples with a retrieval score that fell by more than MIN_LOSS, sorted."""
    found = set()
    for name in compared.metrics:
        metric = find_metric(name)
        if metric is None or metric.info.blames != "retrieval" or metric.info.lower_is_better:
            continue
        changes = zip(compared.pairs(name), compared.changes(name), strict=True)
        found |= {sample_id for sample_id, change in changes if -change > MIN_LOSS}
    return tuple(sorted(found))


def retrieval_changes(facts: Mapping[str, Facts], fell: Collection[str]) -> RetrievalChanges | None:
    """What became of the evidence of samples whose retrieval `fell`, and of those that lost it; None if there are none.

    The facts of some may be missing.
    """
    gone = {sample_id: found.left for sample_id, found in facts.items() if found.lost}
    rest = sorted(set(fell) - gone.keys())
    if not gone and not rest:
        return None
    known = {name: facts.get(name, _UNKNOWN) for name in rest}
    lower = tuple(name for name in rest if known[name].lower)
    whole = [name for name in rest if not known[name].lower and known[name].change is EvidenceChange.RECHUNKED]
    return RetrievalChanges(
        gone=dict(sorted(gone.items())),
        lower=lower,
        rechunked=tuple(whole),
        other=tuple(sorted(set(rest) - {*lower, *whole})),
        old_ids=tuple(name for name in whole if known[name].old_ids),
    )


_UNKNOWN = Facts()


def retrieval_notes(evidence: Evidence) -> Iterator[str]:
    """A note on the samples whose retrieval fell, if they are enough and something is known of one."""
    found = evidence.explanation.retrieval
    if found is None or len(found.other) == found.fell or found.fell < MIN_SAMPLES:
        return
    parts = [
        ("is gone from what the system returns", tuple(found.gone)),
        ("ranks lower", found.lower),
        ("is still returned, in other chunks or under other ids", found.rechunked),
        ("is where it was, in other words, or not known", found.other),
    ]
    listed = "; ".join(f"on {len(ids)}, it {what} ({some(list(ids))})" for what, ids in parts if ids)
    first = listed.replace(", it ", ", the evidence ", 1)
    yield f"Retrieval got worse on {counted(found.fell, 'sample')}: {first}."


def retrieval_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning about labels that name the ids of an earlier corpus."""
    found = evidence.explanation.retrieval
    if found is None or not found.old_ids:
        return
    yield (
        f"relevant_ids no longer fit the corpus: in {counted(len(found.old_ids), 'sample')} the evidence is still "
        f"returned, in other chunks or under other ids ({some(list(found.old_ids))}), so that their scores by id fell "
        "without a loss. Update the ids, or replace them with reference_contexts, which still fit when chunks change."
    )
