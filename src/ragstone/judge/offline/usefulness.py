"""Is a context useful: does it contain a good part of some statement of the reference?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragstone.judge.offline.agreement import QUESTION_DISCOUNT
from ragstone.judge.offline.evidence import Match, sum_of
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.rarity import Rarity

FEATURES = ("share", "window")
"""The largest share of a statement found anywhere in the context, and in neighbouring sentences, in [0, 1]."""


def features(
    statements: Sequence[Sentence], matches: Sequence[Match], rarity: Rarity, question: Collection[str]
) -> list[tuple[float, float]]:
    """The features of each context for `statements` (at least one), each matched with every context.

    `question` are the question's keys, which count less.
    """
    contexts = len(matches[0].shares)
    shares = [0.0] * contexts
    for statement, found in zip(statements, matches, strict=True):
        weights = tuple(
            weight * (QUESTION_DISCOUNT if key in question else 1.0)
            for key, weight in rarity.weights(statement.keys).items()
        )
        total = sum(weights)
        if total:
            shares = [
                max(share, min(1.0, sum_of(held, weights) / total))
                for share, held in zip(shares, found.held, strict=True)
            ]
    windows = [max(found.windows[rank] for found in matches) for rank in range(contexts)]
    return list(zip(shares, windows, strict=True))
