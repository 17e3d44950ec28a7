"""What happened to the evidence of a sample between two runs: kept, re-chunked, ranked
lower or gone."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    context_id,
    supporting_contexts,
)
from ragstone.metrics.evidence_ranks import (
    EvidencePlace,
    Words,
    distinct,
    locate,
    word_runs,
    words,
)
from ragstone.metrics.ranking import relevant_documents
from ragstone.system.response import Context


class EvidenceChange(StrEnum):
    """What happened to evidence that the baseline's contexts have."""

    KEPT = "kept"
    """It is still returned, no lower than before, in the same context."""
    RECHUNKED = "rechunked"
    """It is still returned, no lower than before, in a context with another text or
    another id."""
    LOWER = "lower"
    """It is still returned, but ranks lower."""
    GONE = "gone"
    """The contexts no longer have all of it."""


_MIN_RUNS = 5
"""A context with fewer runs of words is too short to count as new: it may be a part of
a text that was there before."""
_MAX_SHARED = 0.1
"""The largest share of its runs of words that a new context has in common with the
contexts before."""
_WORST_FIRST = (
    EvidenceChange.GONE,
    EvidenceChange.LOWER,
    EvidenceChange.RECHUNKED,
    EvidenceChange.KEPT,
)


def evidence_of(
    sample: Sample, contexts: Sequence[Context], judgements: Judgements
) -> tuple[str, ...]:
    """The texts that the right answer rests on: the reference contexts of the sample,
    or else those of the `contexts` of the baseline's answer that `labelled_ranks`
    names. Empty if there are none.
    """
    texts = distinct(sample.reference_contexts)
    if texts:
        return texts
    ranks = labelled_ranks(sample, contexts, judgements)
    return distinct(tuple(contexts[rank].text for rank in ranks))


def labelled_ranks(
    sample: Sample, contexts: Sequence[Context], judgements: Judgements
) -> list[int]:
    """The ranks, from 0, of the `contexts` of an answer that the right answer rests on:
    those that the relevant ids of the sample name, or else those that support the
    reference according to `judgements`."""
    relevant = relevant_documents(sample.relevant_ids)
    if relevant:
        return [rank for rank, context in enumerate(contexts) if context.id in relevant]
    use = judgements.context_use
    if not isinstance(use, ContextUse):
        return []
    supporting = supporting_contexts(use.attributions)
    return [rank for rank in range(len(contexts)) if context_id(rank) in supporting]


def _texts(contexts: Sequence[Context]) -> tuple[str, ...]:
    return tuple(context.text for context in contexts)


def retrieval_change(
    evidence: tuple[str, ...], before: Sequence[Context], after: Sequence[Context]
) -> EvidenceChange | None:
    """What happened to `evidence` from the contexts `before` to the contexts `after`,
    by the worst of its texts; None if `before` has none of them.

    A text ranks lower if more is above it (more contexts, or more text), and one of the
    contexts above it is new there. A lower rank alone says little: shorter chunks have
    lower ranks.
    """
    places_before = locate(evidence, _texts(before))
    places_after = locate(evidence, _texts(after))
    changes = [
        _change(place_before, place_after, before, after)
        for place_before, place_after in zip(places_before, places_after, strict=True)
        if place_before.is_retrieved
    ]
    return min(changes, key=_WORST_FIRST.index, default=None)


def _change(
    place_before: EvidencePlace,
    place_after: EvidencePlace,
    before: Sequence[Context],
    after: Sequence[Context],
) -> EvidenceChange:
    """What happened to one text that `before` has."""
    if not place_after.is_retrieved:
        return EvidenceChange.GONE
    # With the context of the text itself, which may have been split since.
    runs_above_before = _runs(before[: place_before.first_rank])
    above_after = after[: place_after.first_rank - 1]
    is_lower = place_after.first_rank > place_before.first_rank
    if not is_lower:
        is_lower = len(_runs(above_after)) > len(runs_above_before)
    if is_lower and any(_is_new(context, runs_above_before) for context in above_after):
        return EvidenceChange.LOWER
    context_before = before[place_before.first_rank - 1]
    context_after = after[place_after.first_rank - 1]
    has_same_words = words(context_before.text) == words(context_after.text)
    if has_same_words and context_before.id == context_after.id:
        return EvidenceChange.KEPT
    return EvidenceChange.RECHUNKED


def _is_new(context: Context, runs_before: set[Words]) -> bool:
    """Whether `context` has hardly any of the runs of words before."""
    runs = _runs((context,))
    shared_count = len(runs & runs_before)
    return len(runs) >= _MIN_RUNS and shared_count <= _MAX_SHARED * len(runs)


def _runs(contexts: Sequence[Context]) -> set[Words]:
    """The runs of words in any of `contexts`."""
    runs: set[Words] = set()
    for context in contexts:
        runs |= word_runs(words(context.text))
    return runs
