"""What became of the evidence of a sample between two runs: re-chunked, gone, or ranked
lower."""

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
from ragstone.metrics.evidence import (
    EvidencePlace,
    Words,
    distinct,
    locate,
    runs_of,
    words,
)
from ragstone.metrics.ranking import relevant_documents
from ragstone.system.response import Context


class EvidenceChange(StrEnum):
    """What became of evidence that the baseline's contexts held."""

    KEPT = "kept"
    """It is where it was, or ranks higher."""
    RECHUNKED = "rechunked"
    """It is still returned, no lower than before, in a context with another text or
    another id."""
    LOWER = "lower"
    """It is still returned, but ranks lower."""
    GONE = "gone"
    """The contexts no longer hold it, or not all of it."""


_MIN_RUNS = 5
_HARDLY = 0.1
_WORST = (
    EvidenceChange.GONE,
    EvidenceChange.LOWER,
    EvidenceChange.RECHUNKED,
    EvidenceChange.KEPT,
)


def evidence_of(
    sample: Sample, contexts: Sequence[Context], judgements: Judgements
) -> tuple[str, ...]:
    """The texts that the right answer rests on: the reference contexts of the sample;
    without them, those of the `contexts` of the baseline's answer that `labelled_ranks`
    names. Empty if nothing is known.
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
    of those that the relevant ids of the sample name; without such ids, of those that
    support the reference according to `judgements`."""
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
    evidence: tuple[str, ...], before: Sequence[Context], now: Sequence[Context]
) -> EvidenceChange | None:
    """What became of `evidence` between the contexts `before` and those `now`; None if
    `before` had none of it. That of the worst of its texts counts.

    It ranks lower if more comes before it (by rank, or by text), and some of that is a
    context that was not above it, nor with it in one context. A lower rank alone says
    little: shorter chunks have lower ranks.
    """
    places_before = locate(evidence, _texts(before))
    places_now = locate(evidence, _texts(now))
    changes = [
        _change(place_before, place_now, before, now)
        for place_before, place_now in zip(places_before, places_now, strict=True)
        if place_before.retrieved
    ]
    return min(changes, key=_WORST.index, default=None)


def _change(
    place_before: EvidencePlace,
    place_now: EvidencePlace,
    before: Sequence[Context],
    now: Sequence[Context],
) -> EvidenceChange:
    if not place_now.retrieved:
        return EvidenceChange.GONE
    above_before = _runs(before[: place_before.first])
    above_now = now[: place_now.first - 1]
    is_lower = place_now.first > place_before.first
    if not is_lower:
        is_lower = len(_runs(above_now)) > len(above_before)
    if is_lower and any(_is_new(context, above_before) for context in above_now):
        return EvidenceChange.LOWER
    context_before = before[place_before.first - 1]
    context_now = now[place_now.first - 1]
    has_same_words = words(context_before.text) == words(context_now.text)
    if has_same_words and context_before.id == context_now.id:
        return EvidenceChange.KEPT
    return EvidenceChange.RECHUNKED


def _is_new(context: Context, runs_before: set[Words]) -> bool:
    """Whether it has hardly any of these runs; a very short one may be a text that was
    there and was cut."""
    runs = _runs((context,))
    shared = len(runs & runs_before)
    return len(runs) >= _MIN_RUNS and shared <= _HARDLY * len(runs)


def _runs(contexts: Sequence[Context]) -> set[Words]:
    runs: set[Words] = set()
    for context in contexts:
        runs |= runs_of(words(context.text))
    return runs
