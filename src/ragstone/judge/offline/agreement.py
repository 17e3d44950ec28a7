"""How much of one text another text says, statement by statement: an answer and its reference, a context and both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragstone.judge.offline.evidence import Match, holds_key, sum_of
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER

QUESTION_DISCOUNT = 0.3
"""The weight of a question's word in an answer or a reference: repeating the question says little."""

MAJORITY = 0.5
"""The share from which the other text says a statement: at least half of its content beyond the question."""


@dataclass(frozen=True, slots=True)
class Said:
    """How much of a statement the other text says: `share` in [0, 1] of its `weight`; `numbers`: all its numbers."""

    weight: float
    share: float
    numbers: bool

    @property
    def agrees(self) -> bool:
        return self.numbers and self.share >= MAJORITY


def said(statement: Sentence, passage: Passage, rarity: Rarity, question: Collection[str]) -> Said:
    """How much of `statement` is in `passage`; `question` are the question's keys."""
    weights = {
        key: weight * (QUESTION_DISCOUNT if key in question else 1.0)
        for key, weight in rarity.weights(statement.keys).items()
    }
    total = sum(weights.values())
    if not total:
        return Said(0.0, 0.0, True)
    held = {key for key in weights if holds_key(key, passage.places)}
    numbers = all(key in held for key in weights if key.startswith(NUMBER))
    return Said(total, min(1.0, sum(weight for key, weight in weights.items() if key in held) / total), numbers)


def overall(found: Sequence[Said]) -> float | None:
    """The weighted mean share over all statements, in [0, 1]; None when their weights sum to 0."""
    total = sum(one.weight for one in found)
    return min(1.0, sum(one.share * one.weight for one in found) / total) if total else None


USE_FEATURES = ("share", "window")
"""The largest share of a statement found anywhere in the context, and in neighbouring sentences, in [0, 1]."""


def use_features(
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
