"""Measures of a ranking against graded relevance: pure functions, as trec_eval defines
them.

The relevant items are documents, known by their ids, or texts. A context is of one
document, but may have several texts, or only a part of one. If each text is in one
context, and no two in the same, the measures are those of documents. With `k`, only the
first `k` contexts count. All results are in [0, 1]; all are 0 if nothing is relevant.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct

ALL = sys.maxsize
"""A cut-off beyond all contexts."""


class LocatedItem(Struct, frozen=True):
    """A relevant document or text that ranked contexts have; ranks are from 1."""

    first_rank: int
    """The rank of the context in which it begins."""
    complete_rank: int
    """The rank of the context up to which the contexts have all of it."""
    grade: float


class Located(Struct, frozen=True):
    """Where relevant items are in ranked contexts; ranks are from 1."""

    items: tuple[LocatedItem, ...]
    """The relevant items that the contexts have."""
    relevant_ranks: frozenset[int]
    """The ranks of contexts that have a relevant item or a large part of one."""
    grades: tuple[float, ...]
    """The grades, above 0, of all relevant items, also of missing ones."""

    def items_in(self, k: int) -> list[LocatedItem]:
        """The items that the first `k` contexts have."""
        return [item for item in self.items if item.complete_rank <= k]

    def relevant_in(self, k: int) -> int:
        """How many of the first `k` contexts are relevant."""
        return sum(rank <= k for rank in self.relevant_ranks)


def locate_documents(ranked: Sequence[str], grades: Mapping[str, float]) -> Located:
    """Where the relevant documents (of a grade above 0) are among the `ranked` ids,
    which are without repeats and have the best first."""
    relevant = relevant_documents(grades)
    items = [
        LocatedItem(rank, rank, relevant[document])
        for rank, document in enumerate(ranked, start=1)
        if document in relevant
    ]
    relevant_ranks = frozenset(item.first_rank for item in items)
    return Located(tuple(items), relevant_ranks, tuple(relevant.values()))


def relevant_documents(grades: Mapping[str, float]) -> dict[str, float]:
    """The documents of a grade above 0, with their grades."""
    return {document: grade for document, grade in grades.items() if grade > 0}


def recall(located: Located, k: int = ALL) -> float:
    """Relevant items that are retrieved ÷ all relevant items."""
    return len(located.items_in(k)) / max(1, len(located.grades))


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
    first_rank = min(located.relevant_ranks, default=math.inf)
    return 1.0 / first_rank if first_rank <= k else 0.0


def average_precision(located: Located) -> float:
    """The mean over all relevant items of the precision at the rank where they begin, 0
    for those that are not retrieved; its mean is MAP."""
    ranks = [item.first_rank for item in located.items]
    total = sum(located.relevant_in(rank) / rank for rank in ranks)
    return total / max(1, len(located.grades))


def ndcg(located: Located, k: int = ALL) -> float:
    """The discounted cumulative gain Σ grade ÷ log2(rank + 1) of the items that are
    retrieved, by the rank where they begin, ÷ that of the ideal ranking, which has one
    item at each rank from 1 on (Järvelin & Kekäläinen 2002, with trec_eval's linear
    gains).

    At most 1, although one context may have several texts.
    """
    ideal_grades = sorted(located.grades, reverse=True)[:k]
    ideal = [
        LocatedItem(rank, rank, grade)
        for rank, grade in enumerate(ideal_grades, start=1)
    ]
    ideal_gain = _discounted_gain(ideal)
    if not ideal_gain:
        return 0.0
    return min(1.0, _discounted_gain(located.items_in(k)) / ideal_gain)


def _discounted_gain(items: Sequence[LocatedItem]) -> float:
    return sum(item.grade / math.log2(item.first_rank + 1) for item in items)
