"""The order of an answer's contexts, without their texts, to see whether it got worse."""

from __future__ import annotations

from collections.abc import Iterable, Set

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence_ranks import distinct, locate
from ragstone.metrics.ranking import relevant_documents
from ragstone.metrics.retrieval_change import labelled_ranks
from ragstone.system.response import Response


class RankedContexts(Struct, frozen=True):
    """An answer's contexts by rank, as hashes, which can be compared within this
    process only."""

    ids: tuple[int, ...] = ()
    """The hashes of the ids; empty if a context has no id, or two have the same."""
    texts: tuple[int, ...] = ()
    """The hashes of the texts."""
    evidence: tuple[int, ...] = ()
    """The ranks, from 0, of the contexts that contain what the answer needs."""
    has_relevant: bool = False
    """Whether a context has a relevant id."""
    unmatched: tuple[str, str] | None = None
    """An example of a relevant id and of a context's id, if no context has a relevant
    id; else None."""


def ranked_contexts(
    sample: Sample, response: Response, judgements: Judgements
) -> RankedContexts:
    """The contexts of `response`. Which of them have the evidence is known from the
    sample's labels, or else from the judge."""
    contexts = response.contexts
    context_ids = {context.id for context in contexts if context.id is not None}
    relevant = relevant_documents(sample.relevant_ids).keys()
    has_relevant = not relevant.isdisjoint(context_ids)
    unmatched = None
    if relevant and context_ids and not has_relevant:
        unmatched = min(relevant), min(context_ids)
    texts = distinct(sample.reference_contexts)
    evidence: set[int] = set()
    if texts:
        for place in locate(texts, tuple(context.text for context in contexts)):
            evidence.update(rank - 1 for rank in place.carrier_ranks)
    else:
        evidence.update(labelled_ranks(sample, contexts, judgements))
    has_ids = len(context_ids) == len(contexts)
    return RankedContexts(
        ids=tuple(hash(context.id) for context in contexts) if has_ids else (),
        texts=tuple(hash(context.text) for context in contexts),
        evidence=tuple(sorted(evidence)),
        has_relevant=has_relevant,
        unmatched=unmatched,
    )


def evidence_ranks(
    current: RankedContexts, baseline: RankedContexts
) -> tuple[int, int] | None:
    """The rank, from 1, of the first piece of the baseline's evidence in `current` and
    in `baseline`, among the contexts that both have; None if they share no evidence."""
    keys, baseline_keys = current.texts, baseline.texts
    if current.ids and baseline.ids:
        keys, baseline_keys = current.ids, baseline.ids
    common = set(keys) & set(baseline_keys)
    evidence = {baseline_keys[rank] for rank in baseline.evidence} & common
    if not evidence:
        return None
    rank = _first_rank(keys, evidence, common)
    return rank, _first_rank(baseline_keys, evidence, common)


def _first_rank(keys: Iterable[int], evidence: Set[int], common: Set[int]) -> int:
    """The rank, from 1, of the first of `evidence` among those of `keys` that are in
    `common`."""
    ranked = [key for key in dict.fromkeys(keys) if key in common]
    return 1 + min(map(ranked.index, evidence))
