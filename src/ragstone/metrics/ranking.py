"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines them.

`grades` maps a document id to its grade. A document is relevant when its grade is above 0; gains are the grades
themselves; an unjudged document has grade 0. `ranked` are document ids, best first, without repeats. All results are
in [0, 1]; all are 0 when nothing is relevant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def recall_at(k: int, ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    """Relevant documents among the first `k` ÷ all relevant documents."""
    relevant = _relevant(grades)
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def precision_at(k: int, ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    """Relevant documents among the first `k` ÷ `k`, even if fewer were retrieved (trec_eval's P_k)."""
    return len(_relevant(grades).intersection(ranked[:k])) / k


def hit_at(k: int, ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    """1 if some relevant document is among the first `k`, else 0 (trec_eval's success_k)."""
    return float(not _relevant(grades).isdisjoint(ranked[:k]))


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    """1 ÷ rank of the first relevant document, 0 if none was retrieved; its mean is MRR."""
    relevant = _relevant(grades)
    return next((1.0 / rank for rank, document in enumerate(ranked, start=1) if document in relevant), 0.0)


def average_precision(ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    """Mean over all relevant documents of the precision at their rank, 0 for those not retrieved; its mean is MAP."""
    relevant = _relevant(grades)
    hits = 0
    total = 0.0
    for rank, document in enumerate(ranked, start=1):
        if document in relevant:
            hits += 1
            total += hits / rank
    return total / len(relevant) if relevant else 0.0


def ndcg(ranked: Sequence[str], grades: Mapping[str, float], k: int | None = None) -> float:
    """Discounted gain Σ grade ÷ log2(rank + 1) over the first `k` ÷ that of the ideal ranking (Järvelin & Kekäläinen
    2002, with trec_eval's linear gains)."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _discounted(ideal[:k])
    return min(1.0, _discounted([grades.get(document, 0.0) for document in ranked[:k]]) / best) if best else 0.0


def _relevant(grades: Mapping[str, float]) -> set[str]:
    return {document for document, grade in grades.items() if grade > 0}


def _discounted(gains: Sequence[float]) -> float:
    return sum(max(0.0, gain) / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
