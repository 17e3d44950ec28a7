"""The contexts of an answer in their order, without their texts: to see whether they
were in a better one before."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Set

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    context_id,
    supporting_contexts,
)
from ragstone.metrics.evidence import distinct, locate
from ragstone.system.response import Response

MAX_IDS = 10


class RankedContexts(Struct, frozen=True):
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
    relevant = {name for name, grade in sample.relevant_ids.items() if grade > 0}
    own_ids = {name for name in ids if name is not None}
    missed = _few(relevant - own_ids) if own_ids else ()
    texts = distinct(sample.reference_contexts)
    use = judgements.context_use
    evidence: set[int] = set()
    if texts:
        for place in locate(texts, tuple(context.text for context in contexts)):
            evidence.update(rank - 1 for rank in place.carriers)
    elif relevant:
        evidence.update(
            rank for rank, context in enumerate(contexts) if context.id in relevant
        )
    elif isinstance(use, ContextUse) and use.against_reference:
        supporting = supporting_contexts(use.attributions)
        evidence.update(
            rank for rank in range(len(contexts)) if context_id(rank) in supporting
        )
    has_ids = len(own_ids) == len(contexts)
    return RankedContexts(
        ids=tuple(hash(context.id) for context in contexts) if has_ids else (),
        texts=tuple(hash(context.text) for context in contexts),
        evidence=tuple(sorted(evidence)),
        missed_ids=missed,
        other_ids=_few(own_ids - relevant) if missed else (),
        relevant_ids=_few(own_ids & relevant),
    )


def _few(ids: Iterable[str]) -> tuple[str, ...]:
    """The first of `ids`. They are interned: the same documents are named in many
    samples."""
    return tuple(sys.intern(name) for name in sorted(filter(None, ids))[:MAX_IDS])


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
    common = set(keys_now) & set(keys_before)
    evidence = {keys_before[rank] for rank in before.evidence} & common
    if not evidence:
        return None
    return _first_rank(keys_now, evidence, common), _first_rank(
        keys_before, evidence, common
    )


def _first_rank(keys: Iterable[int], evidence: Set[int], common: Set[int]) -> int:
    """The rank of the first of `evidence`, among those of `keys` that are in
    `common`."""
    ranked = [key for key in dict.fromkeys(keys) if key in common]
    return 1 + min(ranked.index(key) for key in evidence)
