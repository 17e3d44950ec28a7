"""Retrieval metrics: compare the ranking of the contexts with what the golden set calls
relevant, without a judge.

The relevant ids of a sample are compared with the ids of the contexts. A sample without
relevant ids, but with reference contexts, is compared by text: see metrics/evidence_ranks.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ragstone.formatting import counted
from ragstone.golden.sample import Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics import ranking
from ragstone.metrics.evidence_ranks import EvidencePlace, distinct, locate
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import (
    NOTHING_RETURNED,
    Failed,
    NotApplicable,
    Score,
    Scored,
)
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS, Response

Measure = Callable[[ranking.Located], float]

USUAL_CUTS = (1, 3, 5, 10, 20)
"""The cut-offs of the listed metrics; any other from 1 to 1000 is available by name
(``ndcg@15``)."""

_CUT_NAME = re.compile(r"(recall|precision|hit_rate|mrr|ndcg)@([1-9]\d{0,2}|1000)")
_SOURCE = (
    "trec_eval (NIST): recall_k, P_k, success_k, recip_rank, map, ndcg, ndcg_cut_k"
)


class RetrievalMetric(BaseMetric):
    """A measure of the ranking of the contexts against `Sample.relevant_ids`, or else
    against `Sample.reference_contexts`.

    Not applicable without either. Several chunks of one document count once, at their
    best rank; so do contexts with the same words, if they are compared by text. A
    context without an id is not relevant; contexts that all have no id can't be
    compared with relevant ids, so that the metric fails.
    """

    def __init__(self, name: str, title: str, measure: Measure) -> None:
        self.info = MetricInfo(
            name=name,
            version="2",
            title=title,
            blames="retrieval",
            source=_SOURCE,
            needs_no_answer=True,
        )
        self._measure = measure

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"relevant_ids", "reference_contexts"})

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if _is_labelled_by_id(sample) or distinct(sample.reference_contexts):
            return None
        return NotApplicable(
            "the sample names neither relevant ids nor reference contexts"
        )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.contexts:
            if not response.contexts_returned:
                return NotApplicable(NO_CONTEXTS)
            return NOTHING_RETURNED
        if not _is_labelled_by_id(sample):
            return self._rate_by_text(sample, response)
        if all(context.id is None for context in response.contexts):
            return Failed(
                "system",
                "the contexts have no ids, so they can't be compared with relevant_ids",
            )
        ids = []
        for rank, context in enumerate(response.contexts):
            # A made-up id that is no document's, so that the context keeps its rank.
            ids.append(f"\0no id, rank {rank}" if context.id is None else context.id)
        ranked = list(dict.fromkeys(ids))
        located = ranking.locate_documents(ranked, sample.relevant_ids)
        return Scored(self._measure(located))

    def _rate_by_text(self, sample: Sample, response: Response) -> Score:
        if response.lacks_texts:
            return NotApplicable(f"{NO_TEXTS}: label the sample with relevant_ids")
        texts = distinct(tuple(context.text for context in response.contexts))
        places = locate(distinct(sample.reference_contexts), texts)
        retrieved = sum(place.is_retrieved for place in places)
        note = f"by text: {retrieved} of {counted(len(places), 'reference context')}"
        return Scored(self._measure(rank_texts(places)), note=note)


def retrieval_metric(name: str) -> RetrievalMetric | None:
    """The retrieval metric called `name`, with any cut-off from 1 to 1000; None if
    there is none."""
    if name in _UNCUT:
        return RetrievalMetric(name, *_UNCUT[name])
    match = _CUT_NAME.fullmatch(name)
    if match is None:
        return None
    title, measure = _CUTS[match.group(1)]
    k = int(match.group(2))
    return RetrievalMetric(name, f"{title}@{k}", partial(measure, k=k))


def usual_retrieval_metrics() -> Iterator[RetrievalMetric]:
    """Every retrieval metric at the usual cut-offs, in the order of reports."""
    names = list(_UNCUT)
    for kind in _CUTS:
        names += [f"{kind}@{k}" for k in USUAL_CUTS]
    return filter(None, map(retrieval_metric, names))


def _is_labelled_by_id(sample: Sample) -> bool:
    return bool(ranking.relevant_documents(sample.relevant_ids))


def rank_texts(places: Sequence[EvidencePlace]) -> ranking.Located:
    """The evidence texts that are at these `places` of ranked contexts, as equally
    relevant items."""
    items: list[ranking.LocatedItem] = []
    relevant_ranks: set[int] = set()
    for place in places:
        relevant_ranks.update(place.carrier_ranks)
        if place.is_retrieved:
            relevant_ranks.add(place.first_rank)
            item = ranking.LocatedItem(place.first_rank, place.complete_rank, grade=1.0)
            items.append(item)
    grades = (1.0,) * len(places)
    return ranking.Located(tuple(items), frozenset(relevant_ranks), grades)


# Titles and measures by the name of a metric, without and with a cut-off.
_UNCUT: Mapping[str, tuple[str, Measure]] = {
    "mrr": ("Reciprocal rank", ranking.reciprocal_rank),
    "average_precision": ("Average precision", ranking.average_precision),
    "ndcg": ("nDCG", ranking.ndcg),
}
_CUTS: Mapping[str, tuple[str, Callable[..., float]]] = {
    "recall": ("Recall", ranking.recall),
    "precision": ("Precision", ranking.precision),
    "hit_rate": ("Hit rate", ranking.hit),
    "mrr": ("Reciprocal rank", ranking.reciprocal_rank),
    "ndcg": ("nDCG", ranking.ndcg),
}
