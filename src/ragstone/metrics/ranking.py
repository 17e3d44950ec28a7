"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines
them.

What is relevant are documents, known by their ids, or texts, of which a context may
hold several, or only a part. If each text is in one context, and no two in the same,
both give the same. With `k`, only the first `k` contexts count. All results are in [0,
1]; all are 0 when nothing is relevant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct


class Located(Struct, frozen=True):
    """Where what is relevant is in ranked contexts; ranks are from 1."""

    items: tuple[tuple[int, int] | None, ...]
    """For each relevant document or text: the rank where it begins, and how many first
    contexts have all of it; None if the contexts don't have it."""
    relevant: frozenset[int]
    """The ranks of contexts with a relevant item or a large part of one."""
    gains: tuple[float, ...]
    """The items' grades, above 0."""

    def retrieved(self, k: int | None) -> list[tuple[int, float]]:
        """Rank and gain of the items that the first `k` contexts have."""
        retrieved = []
        for item, gain in zip(self.items, self.gains, strict=True):
            if item is None:
                continue
            rank, complete = item
            if k is None or complete <= k:
                retrieved.append((rank, gain))
        return retrieved

    def relevant_in(self, k: int) -> int:
        """How many of the first `k` contexts are relevant."""
        return sum(rank <= k for rank in self.relevant)


def locate_documents(ranked: Sequence[str], grades: Mapping[str, float]) -> Located:
    """Where the relevant documents (of a grade above 0) are among `ranked` ids, best
    first, without repeats."""
    rank_of = {document: rank for rank, document in enumerate(ranked, start=1)}
    last = len(ranked) + 1
    relevant = [document for document, grade in grades.items() if grade > 0]
    relevant.sort(key=lambda document: rank_of.get(document, last))
    ranks = list(map(rank_of.get, relevant))
    return Located(
        items=tuple(None if rank is None else (rank, rank) for rank in ranks),
        relevant=frozenset(rank for rank in ranks if rank is not None),
        gains=tuple(grades[document] for document in relevant),
    )


def recall(located: Located, k: int | None = None) -> float:
    """Relevant items that are retrieved ÷ all relevant items."""
    if not located.items:
        return 0.0
    return len(located.retrieved(k)) / len(located.items)


def precision(located: Located, k: int) -> float:
    """Relevant contexts among the first `k` ÷ `k`, even if fewer were retrieved
    (trec_eval's P_k)."""
    return located.relevant_in(k) / k


def hit(located: Located, k: int) -> float:
    """1 if one of the first `k` contexts is relevant, else 0 (trec_eval's
    success_k)."""
    return float(located.relevant_in(k) > 0)


def reciprocal_rank(located: Located, k: int | None = None) -> float:
    """1 ÷ rank of the first relevant context, 0 if there is none; its mean is MRR."""
    first = min(located.relevant, default=None)
    if first is None or (k is not None and first > k):
        return 0.0
    return 1.0 / first


def average_precision(located: Located) -> float:
    """Mean over all relevant items of the precision at the rank where they begin, 0 for
    those that are not retrieved; its mean is MAP."""
    if not located.items:
        return 0.0
    total = sum(located.relevant_in(rank) / rank for rank, _ in located.retrieved(None))
    return total / len(located.items)


def ndcg(located: Located, k: int | None = None) -> float:
    """Discounted gain Σ gain ÷ log2(rank + 1) of the items that are retrieved, by the
    rank where they begin, ÷ that of the ideal ranking, one item at each rank from 1 on
    (Järvelin & Kekäläinen 2002, with trec_eval's linear gains).

    At most 1, although one context may hold several texts.
    """
    ideal = sorted(located.gains, reverse=True)
    best = _discounted(enumerate(ideal[:k], start=1))
    if not best:
        return 0.0
    return min(1.0, _discounted(located.retrieved(k)) / best)


def _discounted(gains: Iterable[tuple[int, float]]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in gains)
