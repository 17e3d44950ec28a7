"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines them.

`grades` maps a document id to its grade. A document is relevant when its grade is above 0; gains are the grades
themselves; an unjudged document has grade 0. `ranked` are document ids, best first, without repeats. All results are
in [0, 1]; all are 0 when nothing is relevant.

The measures that end in ``_of`` are the same for relevant texts, of which a context may hold several, or only a part.
If each is in one context, and no two in the same, they are equal to those of ids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Located:
    """Where relevant texts are in ranked contexts; ranks are from 1.

    `texts` has an entry for each relevant text: the rank where it begins, and how many first contexts hold all of it;
    None if the contexts don't hold it. `relevant` are the ranks of contexts with a relevant text or a large part of
    one.
    """

    texts: tuple[tuple[int, int] | None, ...]
    relevant: frozenset[int]

    def begins(self, k: int | None) -> list[int]:
        """The ranks where the texts begin that the first `k` contexts hold."""
        return [text[0] for text in self.texts if text is not None and (k is None or text[1] <= k)]

    def relevant_in(self, k: int) -> int:
        """How many of the first `k` contexts are relevant."""
        return sum(rank <= k for rank in self.relevant)


def recall_of(found: Located, k: int | None = None) -> float:
    """Texts that the first `k` contexts hold ÷ all relevant texts."""
    return len(found.begins(k)) / len(found.texts) if found.texts else 0.0


def precision_of(found: Located, k: int) -> float:
    """Relevant contexts among the first `k` ÷ `k`."""
    return found.relevant_in(k) / k


def hit_of(found: Located, k: int) -> float:
    """1 if one of the first `k` contexts is relevant, else 0."""
    return float(found.relevant_in(k) > 0)


def reciprocal_rank_of(found: Located, k: int | None = None) -> float:
    """1 ÷ rank of the first relevant context (among the first `k`), 0 if there is none."""
    first = min(found.relevant, default=None)
    return 0.0 if first is None or (k is not None and first > k) else 1.0 / first


def average_precision_of(found: Located) -> float:
    """Mean over all relevant texts of the precision at the rank where they begin, 0 for those that are not held."""
    total = sum(found.relevant_in(rank) / rank for rank in found.begins(None))
    return total / len(found.texts) if found.texts else 0.0


def ndcg_of(found: Located, k: int | None = None) -> float:
    """Σ 1 ÷ log2(rank + 1) over the texts that the first `k` contexts hold, by the rank where they begin, ÷ the same
    for one text at each rank from 1 on; at most 1, although one context may hold several."""
    best = _discounted([1.0] * min(len(found.texts), k if k is not None else len(found.texts)))
    return min(1.0, sum(1.0 / math.log2(rank + 1) for rank in found.begins(k)) / best) if best else 0.0


def _relevant(grades: Mapping[str, float]) -> set[str]:
    return {document for document, grade in grades.items() if grade > 0}


def _discounted(gains: Sequence[float]) -> float:
    return sum(max(0.0, gain) / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
