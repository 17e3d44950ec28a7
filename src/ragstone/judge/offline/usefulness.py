"""Is a context useful: does it hold a good part of some statement of the reference?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragstone.judge.offline.agreement import said
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.support import Rating

FEATURES = ("share", "window")
"""The greatest share of a statement that the context holds, anywhere and in neighbouring sentences, in [0, 1]."""


def features(
    statements: Sequence[Sentence],
    ratings: Sequence[Rating],
    passage: Passage,
    rarity: Rarity,
    question: Collection[str],
) -> tuple[float, ...]:
    """The features of one context for `statements` (at least one), rated against it one by one."""
    shares = [said(statement, passage, rarity, question).share for statement in statements]
    return max(shares), max(rating.window for rating in ratings)
