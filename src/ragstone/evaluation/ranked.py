"""The contexts of an answer in their order, without their texts: to see whether they
were in a better one before."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, Judgements, Verdict, context_id
from ragstone.metrics.evidence import distinct, locate
from ragstone.system.response import Context, Response

MAX_IDS = 10


@dataclass(frozen=True, slots=True)
class RankedContexts:
    """Hashes of the ids and texts of an answer's contexts, by rank: equal in this
    process if those are."""

    ids: tuple[int, ...] = ()
    """Empty if a context has no id, or two have the same."""
    texts: tuple[int, ...] = ()
    evidence: tuple[int, ...] = ()
    """The ranks, from 0, of the contexts that the right answer rests on."""
    missed_ids: tuple[str, ...] = ()
    """Relevant ids that no context has, at most MAX_IDS; empty if no context has an
    id."""
    other_ids: tuple[str, ...] = ()
    """Ids of contexts that are not relevant, at most MAX_IDS; empty if no relevant id
    is missed."""
    relevant_ids: tuple[str, ...] = ()
    """Relevant ids that a context has, at most MAX_IDS."""


def ranked_contexts(
    sample: Sample, response: Response, judgements: Judgements
) -> RankedContexts:
    """The contexts of `response`. What holds the evidence is said by the sample's
    labels, or else by the judge."""
    contexts = response.contexts
    ids = {context.id for context in contexts}
    relevant = _relevant_ids(sample)
    missed = _few(relevant - ids) if ids - {None} else ()
    has_ids = len(ids) == len(contexts) and None not in ids
    return RankedContexts(
        ids=tuple(hash(context.id) for context in contexts) if has_ids else (),
        texts=tuple(hash(context.text) for context in contexts),
        evidence=tuple(_evidence(sample, contexts, judgements)),
        missed_ids=missed,
        other_ids=_few(ids - relevant - {None}) if missed else (),
        relevant_ids=_few(ids & relevant),
    )


def _few(ids: Collection[str | None]) -> tuple[str, ...]:
    """The first of `ids`. They are interned: the same documents are named in many
    samples."""
    return tuple(sys.intern(name) for name in sorted(filter(None, ids))[:MAX_IDS])


def _relevant_ids(sample: Sample) -> set[str | None]:
    return {name for name, grade in sample.relevant_ids.items() if grade > 0}


def _evidence(
    sample: Sample, contexts: Sequence[Context], judgements: Judgements
) -> Collection[int]:
    texts = distinct(sample.reference_contexts)
    if texts:
        places = locate(texts, tuple(context.text for context in contexts))
        return sorted({rank - 1 for place in places for rank in place.carriers})
    relevant = _relevant_ids(sample)
    if relevant:
        return [rank for rank, context in enumerate(contexts) if context.id in relevant]
    use = judgements.context_use
    if not isinstance(use, ContextUse) or not use.against_reference:
        return ()
    supported = [
        support for support in use.attributions if support.verdict is Verdict.SUPPORTED
    ]
    supporting = {name for support in supported for name in support.supported_by}
    return [rank for rank in range(len(contexts)) if context_id(rank) in supporting]


def evidence_ranks(
    now: RankedContexts, before: RankedContexts
) -> tuple[int, int] | None:
    """The rank, from 1, of the first evidence now and before, among the contexts that
    both have.

    The evidence is that of `before`. None if none of it is in both.
    """
    keys_now, keys_before = now.texts, before.texts
    if now.ids and before.ids:
        keys_now, keys_before = now.ids, before.ids
    evidence = {keys_before[rank] for rank in before.evidence}
    rank_now = _first(keys_now, evidence, keys_before)
    rank_before = _first(keys_before, evidence, keys_now)
    if rank_now is None or rank_before is None:
        return None
    return rank_now, rank_before


def _first(
    keys: Sequence[int], evidence: Collection[int], other_keys: Collection[int]
) -> int | None:
    """The rank of the first evidence in `keys`, among those that are in both."""
    rank = 0
    for key in dict.fromkeys(keys):
        rank += key in other_keys
        if key in evidence and key in other_keys:
            return rank
    return None
