"""Retrieval metrics: compare the contexts' order with what the golden set calls relevant, without a judge.

Relevant ids are compared with the contexts' ids. A sample without them, but with reference contexts, is labelled by
text: see metrics/evidence.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics import ranking
from ragstone.metrics.evidence import Found, distinct, locate
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

Measure = Callable[[Sequence[str], Mapping[str, float]], float]
TextMeasure = Callable[[ranking.Located], float]

USUAL_CUTS = (1, 3, 5, 10, 20)
"""The listed cut-offs; any other from 1 to 1000 is available by name (``ndcg@15``)."""

_CUT_NAME = re.compile(r"(recall|precision|hit_rate|mrr|ndcg)@([1-9]\d{0,2}|1000)")
_SOURCE = "trec_eval (NIST): recall_k, P_k, success_k, recip_rank, map, ndcg, ndcg_cut_k"


class RetrievalMetric(BaseMetric):
    """One measure of the contexts' order against `Sample.relevant_ids`, or else against `Sample.reference_contexts`.

    Not applicable without either. Several chunks of one document count once, at their best rank; so do contexts with
    the same words, if the labels are texts. A context without an id is not relevant; a response without any ids can't
    be compared with relevant ids and fails.
    """

    def __init__(self, name: str, title: str, measure: Measure, by_text: TextMeasure) -> None:
        self.info = MetricInfo(name=name, version="2", title=title, blames="retrieval", source=_SOURCE, answerless=True)
        self._measure = measure
        self._by_text = by_text

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if _is_labelled_by_id(sample) or distinct(sample.reference_contexts):
            return None
        return NotApplicable("the sample names neither relevant ids nor reference contexts")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
        if not _is_labelled_by_id(sample):
            texts = distinct(tuple(context.text for context in response.contexts))
            found = locate(distinct(sample.reference_contexts), texts)
            held = sum(one.held for one in found)
            return Scored(
                self._by_text(_located(found)), note=f"by text: {held} of {counted(len(found), 'reference context')}"
            )
        if all(context.id is None for context in response.contexts):
            return Failed("system", "the contexts carry no ids, so they can't be compared with relevant_ids")
        ids = [
            context.id if context.id is not None else f"\0no id, rank {rank}"
            for rank, context in enumerate(response.contexts)
        ]
        return Scored(self._measure(list(dict.fromkeys(ids)), sample.relevant_ids))


def retrieval_metric(name: str) -> RetrievalMetric | None:
    """The retrieval metric called `name`, with any cut-off from 1 to 1000; None if there is none."""
    if name in _UNCUT:
        title, measure, by_text = _UNCUT[name]
        return RetrievalMetric(name, title, measure, by_text)
    found = _CUT_NAME.fullmatch(name)
    if found is None:
        return None
    kind, k = found.group(1), int(found.group(2))
    title, cut, cut_text = _CUTS[kind]
    return RetrievalMetric(name, f"{title}@{k}", cut(k), cut_text(k))


def usual_retrieval_metrics() -> Iterator[RetrievalMetric]:
    """Every retrieval metric at the usual cut-offs, in the order of reports."""
    names = [*_UNCUT, *(f"{kind}@{k}" for kind in _CUTS for k in USUAL_CUTS)]
    for name in names:
        metric = retrieval_metric(name)
        if metric is not None:
            yield metric


def _is_labelled_by_id(sample: Sample) -> bool:
    return any(grade > 0 for grade in sample.relevant_ids.values())


def _located(found: Sequence[Found]) -> ranking.Located:
    relevant = {rank for one in found for rank in (one.first, *one.carriers) if rank is not None}
    return ranking.Located(
        tuple(
            (one.first, one.complete) if one.first is not None and one.complete is not None else None for one in found
        ),
        frozenset(relevant),
    )


_UNCUT: Mapping[str, tuple[str, Measure, TextMeasure]] = {
    "mrr": ("Reciprocal rank", ranking.reciprocal_rank, ranking.reciprocal_rank_of),
    "average_precision": ("Average precision", ranking.average_precision, ranking.average_precision_of),
    "ndcg": ("nDCG", ranking.ndcg, ranking.ndcg_of),
}
_CUTS: Mapping[str, tuple[str, Callable[[int], Measure], Callable[[int], TextMeasure]]] = {
    "recall": (
        "Recall",
        lambda k: lambda ids, grades: ranking.recall_at(k, ids, grades),
        lambda k: lambda found: ranking.recall_of(found, k),
    ),
    "precision": (
        "Precision",
        lambda k: lambda ids, grades: ranking.precision_at(k, ids, grades),
        lambda k: lambda found: ranking.precision_of(found, k),
    ),
    "hit_rate": (
        "Hit rate",
        lambda k: lambda ids, grades: ranking.hit_at(k, ids, grades),
        lambda k: lambda found: ranking.hit_of(found, k),
    ),
    "mrr": (
        "Reciprocal rank",
        lambda k: lambda ids, grades: ranking.reciprocal_rank(ids[:k], grades),
        lambda k: lambda found: ranking.reciprocal_rank_of(found, k),
    ),
    "ndcg": (
        "nDCG",
        lambda k: lambda ids, grades: ranking.ndcg(ids, grades, k),
        lambda k: lambda found: ranking.ndcg_of(found, k),
    ),
}
