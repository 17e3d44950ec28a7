"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines
them.

What is relevant are documents, known by their ids, or texts, of which a context may
hold several, or only a part. If each text is in one context, and no two in the same,
both give the same. With `k`, only the first `k` contexts count. All results are in [0,
1]; all are 0 when nothing is relevant.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

ALL = sys.maxsize
"""A cut-off beyond all contexts."""


class Located(Struct, frozen=True):
    """Where what is relevant is in ranked contexts; ranks are from 1."""

    items: tuple[tuple[int, int, float], ...]
    """For each relevant document or text that the contexts have: the rank where it
    begins, how many first contexts have all of it, and its grade."""
    relevant: frozenset[int]
    """The ranks of contexts with a relevant item or a large part of one."""
    gains: tuple[float, ...]
    """The grades, above 0, of all relevant documents or texts."""

    def retrieved(self, k: int) -> list[tuple[int, float]]:
        """Rank and gain of the items that the first `k` contexts have."""
        return [(rank, gain) for rank, complete, gain in self.items if complete <= k]

    def relevant_in(self, k: int) -> int:
        """How many of the first `k` contexts are relevant."""
        return sum(rank <= k for rank in self.relevant)


def locate_documents(ranked: Sequence[str], grades: Mapping[str, float]) -> Located:
    """Where the relevant documents (of a grade above 0) are among `ranked` ids, best
    first, without repeats."""
    gains = relevant_documents(grades)
    items = [
        (rank, rank, gains[document])
        for rank, document in enumerate(ranked, start=1)
        if document in gains
    ]
    relevant = frozenset(rank for rank, _, _ in items)
    return Located(tuple(items), relevant, tuple(gains.values()))


def relevant_documents(grades: Mapping[str, float]) -> dict[str, float]:
    """The documents of a grade above 0, with their grades."""
    return {document: grade for document, grade in grades.items() if grade > 0}


def recall(located: Located, k: int = ALL) -> float:
    """Relevant items that are retrieved ÷ all relevant items."""
    return len(located.retrieved(k)) / max(1, len(located.gains))


def precision(located: Located, k: int) -> float:
    """Relevant contexts among the first `k` ÷ `k`, even if fewer were retrieved
    (trec_eval's P_k)."""
    return located.relevant_in(k) / k


def hit(located: Located, k: int) -> float:
    """1 if one of the first `k` contexts is relevant, else 0 (trec_eval's
    success_k)."""
    return float(located.relevant_in(k) > 0)


def reciprocal_rank(located: Located, k: int = ALL) -> float:
    """1 ÷ rank of the first relevant context, 0 if there is none; its mean is MRR."""
    first = min(located.relevant, default=math.inf)
    return 1.0 / first if first <= k else 0.0


def average_precision(located: Located) -> float:
    """Mean over all relevant items of the precision at the rank where they begin, 0 for
    those that are not retrieved; its mean is MAP."""
    ranks = [rank for rank, _, _ in located.items]
    total = sum(located.relevant_in(rank) / rank for rank in ranks)
    return total / max(1, len(located.gains))


def ndcg(located: Located, k: int = ALL) -> float:
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
