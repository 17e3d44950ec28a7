"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines them.

What is relevant are documents, known by their ids, or texts, of which a context may hold several, or only a part. If
each text is in one context, and no two in the same, both give the same. With `k`, only the first `k` contexts count.
All results are in [0, 1]; all are 0 when nothing is relevant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Located:
    """Where what is relevant is in ranked contexts; ranks are from 1.

    `items` has an entry for each relevant document or text: the rank where it begins, and how many first contexts hold
    all of it; None if the contexts don't hold it. `relevant` are the ranks of contexts with a relevant item or a large
    part of one. `gains` are the items' grades, above 0; empty: each is 1.
    """

    items: tuple[tuple[int, int] | None, ...]
    relevant: frozenset[int]
    gains: tuple[float, ...] = ()

    def held(self, k: int | None) -> list[tuple[int, float]]:
        """Rank and gain of the items that the first `k` contexts hold."""
        pairs = zip(self.items, self.gains or (1.0,) * len(self.items), strict=True)
        return [(item[0], gain) for item, gain in pairs if item is not None and (k is None or item[1] <= k)]

    def relevant_in(self, k: int) -> int:
        """How many of the first `k` contexts are relevant."""
        return sum(rank <= k for rank in self.relevant)


def locate_documents(ranked: Sequence[str], grades: Mapping[str, float]) -> Located:
    """Where the relevant documents (of a grade above 0) are among `ranked` ids, best first, without repeats."""
    ranks = {document: rank for rank, document in enumerate(ranked, start=1)}
    relevant = sorted((one for one in grades if grades[one] > 0), key=lambda one: ranks.get(one, len(ranked) + 1))
    found = [ranks.get(document) for document in relevant]
    return Located(
        tuple(None if rank is None else (rank, rank) for rank in found),
        frozenset(rank for rank in found if rank is not None),
        tuple(grades[document] for document in relevant),
    )


def recall(found: Located, k: int | None = None) -> float:
    """Relevant items that are held ÷ all relevant items."""
    if found.items:
        return len(found.held(k)) / len(found.items)
    return 0.0


def precision(found: Located, k: int) -> float:
    """Relevant contexts among the first `k` ÷ `k`, even if fewer were retrieved (trec_eval's P_k)."""
    return found.relevant_in(k) / k


def hit(found: Located, k: int) -> float:
    """1 if one of the first `k` contexts is relevant, else 0 (trec_eval's success_k)."""
    return float(found.relevant_in(k) > 0)


def reciprocal_rank(found: Located, k: int | None = None) -> float:
    """1 ÷ rank of the first relevant context, 0 if there is none; its mean is MRR."""
    first = min(found.relevant, default=None)
    if first is None or (k is not None and first > k):
        return 0.0
    return 1.0 / first


def average_precision(found: Located) -> float:
    """Mean over all relevant items of the precision at the rank where they begin, 0 for those that are not held; its
    mean is MAP."""
    total = sum(found.relevant_in(rank) / rank for rank, _ in found.held(None))
    if found.items:
        return total / len(found.items)
    return 0.0


def ndcg(found: Located, k: int | None = None) -> float:
    """Discounted gain Σ gain ÷ log2(rank + 1) of the items that are held, by the rank where they begin, ÷ that of the
    ideal ranking, one item at each rank from 1 on (Järvelin & Kekäläinen 2002, with trec_eval's linear gains).

    At most 1, although one context may hold several texts.
    """
    ideal = sorted(found.gains or (1.0,) * len(found.items), reverse=True)
    best = _discounted(enumerate(ideal[:k], start=1))
    if not best:
        return 0.0
    return min(1.0, _discounted(found.held(k)) / best)


def _discounted(gains: Iterable[tuple[int, float]]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in gains)
