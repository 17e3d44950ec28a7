"""The contexts of an answer in their order, without their texts: to see whether they
were in a better one before."""

from __future__ import annotations

from collections.abc import Iterable, Set

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence import distinct, locate
from ragstone.metrics.ranking import relevant_documents
from ragstone.metrics.retrieval_change import labelled_ranks
from ragstone.system.response import Response


class RankedContexts(Struct, frozen=True):
    """Hashes of the ids and texts of an answer's contexts, by rank: equal in this
    process if those are."""

    ids: tuple[int, ...] = ()
    """Empty if a context has no id, or two have the same."""
    texts: tuple[int, ...] = ()
    evidence: tuple[int, ...] = ()
    """The ranks, from 0, of the contexts that the right answer rests on."""
    has_relevant: bool = False
    """Whether a context has a relevant id."""
    unmatched: tuple[str, str] | None = None
    """A relevant id and one of a context, where none of the one are among the other."""


def ranked_contexts(
    sample: Sample, response: Response, judgements: Judgements
) -> RankedContexts:
    """The contexts of `response`. What holds the evidence is said by the sample's
    labels, or else by the judge."""
    contexts = response.contexts
    own_ids = {context.id for context in contexts if context.id is not None}
    relevant = relevant_documents(sample.relevant_ids).keys()
    has_relevant = not relevant.isdisjoint(own_ids)
    unmatched = None
    if relevant and own_ids and not has_relevant:
        unmatched = min(relevant), min(own_ids)
    texts = distinct(sample.reference_contexts)
    evidence: set[int] = set()
    if texts:
        for place in locate(texts, tuple(context.text for context in contexts)):
            evidence.update(rank - 1 for rank in place.carrier_ranks)
    else:
        evidence.update(labelled_ranks(sample, contexts, judgements))
    has_ids = len(own_ids) == len(contexts)
    return RankedContexts(
        ids=tuple(hash(context.id) for context in contexts) if has_ids else (),
        texts=tuple(hash(context.text) for context in contexts),
        evidence=tuple(sorted(evidence)),
        has_relevant=has_relevant,
        unmatched=unmatched,
    )


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
    return 1 + min(map(ranked.index, evidence))
