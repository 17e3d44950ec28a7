"""How much of one text another text says, statement by statement: answer against reference, and vice versa."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragstone.judge.offline.evidence import holds_key
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
