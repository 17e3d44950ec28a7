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
    fell = set()
    for name in compared.metrics:
        metric = find_metric(name)
        if metric is not None and metric.info.blames == "retrieval" and not metric.info.lower_is_better:
            changes = zip(compared.pairs(name), compared.changes(name), strict=True)
            fell |= {sample_id for sample_id, change in changes if -change > MIN_LOSS}
    return tuple(sorted(fell))


def retrieval_changes(facts: Mapping[str, Facts], fell: Collection[str]) -> RetrievalChanges | None:
    """What became of the evidence of samples whose retrieval `fell`, and of those that lost it; None if there are none.

    The facts of some may be missing.
    """
    gone = dict[str, float]()
    lower = list[str]()
    rechunked = list[str]()
    other = list[str]()
    for name in sorted({*fell, *(name for name, sample in facts.items() if sample.lost)}):
        sample = facts.get(name, Facts())
        if sample.lost:
            gone[name] = sample.left
        elif sample.lower:
            lower.append(name)
        elif sample.change is EvidenceChange.RECHUNKED:
            rechunked.append(name)
        else:
            other.append(name)
    old_ids = tuple(name for name in rechunked if facts[name].old_ids)
    changes = RetrievalChanges(gone, tuple(lower), tuple(rechunked), tuple(other), old_ids)
    if changes.fell:
        return changes
    return None


def retrieval_notes(evidence: Evidence) -> Iterator[str]:
    """A note on the samples whose retrieval fell, if they are enough and something is known of one."""
    changes = evidence.explanation.retrieval
    if changes is None or len(changes.other) == changes.fell or changes.fell < MIN_SAMPLES:
        return
    became = {
        "is gone from what the system returns": changes.gone,
        "ranks lower": changes.lower,
        "is still returned, in other chunks or under other ids": changes.rechunked,
        "is where it was, in other words, or not known": changes.other,
    }
    parts = "; ".join(f"on {len(ids)}, the evidence {what} ({some(list(ids))})" for what, ids in became.items() if ids)
    yield f"Retrieval got worse on {counted(changes.fell, 'sample')}: {parts}."


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
