"""Retrieval metrics: compare the order of the contexts' ids with the golden set's relevant ids, without a judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics import ranking
from ragstone.metrics.metric import MetricInfo
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

Measure = Callable[[Sequence[str], Mapping[str, float]], float]

USUAL_CUTS = (1, 3, 5, 10, 20)
"""The listed cut-offs; any other from 1 to 1000 is available by name (``ndcg@15``)."""

_CUT_NAME = re.compile(r"(recall|precision|hit_rate|mrr|ndcg)@([1-9]\d{0,2}|1000)")
_SOURCE = "trec_eval (NIST): recall_k, P_k, success_k, recip_rank, map, ndcg, ndcg_cut_k"


class RetrievalMetric:
    """One measure of the contexts' order against `Sample.relevant_ids`.

    Not applicable without relevant ids. Several chunks of one document count once, at their best rank. A context
    without an id is not relevant; a response without any ids can't be scored and fails.
    """

    def __init__(self, name: str, title: str, measure: Measure) -> None:
        self.info = MetricInfo(name=name, version="1", title=title, blames="retrieval", source=_SOURCE)
        self._measure = measure

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:  # noqa: ARG002 - the protocol's signature
        return frozenset()

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not any(grade > 0 for grade in sample.relevant_ids.values()):
            return NotApplicable("the sample names no relevant ids")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
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
        title, measure = _UNCUT[name]
        return RetrievalMetric(name, title, measure)
    found = _CUT_NAME.fullmatch(name)
    if found is None:
        return None
    kind, k = found.group(1), int(found.group(2))
    title, cut = _CUTS[kind]
    return RetrievalMetric(name, f"{title}@{k}", cut(k))


def usual_retrieval_metrics() -> Iterator[RetrievalMetric]:
    """Every retrieval metric at the usual cut-offs, in the order of reports."""
    names = [*_UNCUT, *(f"{kind}@{k}" for kind in _CUTS for k in USUAL_CUTS)]
    for name in names:
        metric = retrieval_metric(name)
        if metric is not None:
            yield metric


_UNCUT: Mapping[str, tuple[str, Measure]] = {
    "mrr": ("Reciprocal rank", ranking.reciprocal_rank),
    "average_precision": ("Average precision", ranking.average_precision),
    "ndcg": ("nDCG", ranking.ndcg),
}
_CUTS: Mapping[str, tuple[str, Callable[[int], Measure]]] = {
    "recall": ("Recall", lambda k: lambda ids, grades: ranking.recall_at(k, ids, grades)),
    "precision": ("Precision", lambda k: lambda ids, grades: ranking.precision_at(k, ids, grades)),
    "hit_rate": ("Hit rate", lambda k: lambda ids, grades: ranking.hit_at(k, ids, grades)),
    "mrr": ("Reciprocal rank", lambda k: lambda ids, grades: ranking.reciprocal_rank(ids[:k], grades)),
    "ndcg": ("nDCG", lambda k: lambda ids, grades: ranking.ndcg(ids, grades, k)),
}
