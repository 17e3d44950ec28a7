"""How much of one text another text says, statement by statement: an answer and its
reference."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from ragstone.judge.offline.evidence import Match, match
from ragstone.judge.offline.passage import Passage, Sentence

QUESTION_DISCOUNT = 0.3
"""The weight of a question's word in an answer or a reference: repeating the question
says little."""

MAJORITY = 0.5
"""The share from which the other text says a statement: at least half of its content
beyond the question."""


class Agreement(Struct, frozen=True):
    """How much of a statement the other text says: `share` in [0, 1] of its `weight`,
    and whether it says the statement by and large. What surely contradicts a statement
    says nothing of it.
    """

    weight: float
    share: float
    agrees: bool


def compare(
    statement: Sentence, passage: Passage, question: Collection[str]
) -> Agreement:
    """How much of `statement` is in `passage`; `question` are the question's keys."""
    evidence = match(statement, [passage])
    matched = evidence.matched[0]
    share = _share(statement, matched, question) * (1 - evidence.conflict)
    return Agreement(
        _weight(statement.key_set, question),
        share,
        share >= MAJORITY and statement.numbers <= matched,
    )


def compare_all(
    statements: Sequence[Sentence], passage: Passage, question: Collection[str]
) -> list[Agreement]:
    """How much of each statement is in `passage`."""
    return [compare(statement, passage, question) for statement in statements]


def overall(agreements: Sequence[Agreement]) -> float | None:
    """The weighted mean share over all statements, in [0, 1]; None when their weights
    sum to 0."""
    total = stated = 0.0
    for agreement in agreements:
        total += agreement.weight
        stated += agreement.share * agreement.weight
    return min(1.0, stated / total) if total else None


USE_FEATURES = ("share", "window")
"""The largest share of a statement found anywhere in the context, and in neighbouring
sentences, in [0, 1]."""


def use_features(
    statements: Sequence[Sentence], matches: Sequence[Match], question: Collection[str]
) -> list[tuple[float, float]]:
    """The features of each context for `statements` (at least one), each matched with
    every context.

    `question` are the question's keys, which count less.
    """
    rows: list[tuple[float, float]] = []
    for rank in range(len(matches[0].matched)):
        share = window = 0.0
        for statement, evidence in zip(statements, matches, strict=True):
            share = max(share, _share(statement, evidence.matched[rank], question))
            window = max(window, evidence.windows[rank])
        rows.append((share, window))
    return rows


def _weight(keys: Collection[str], question: Collection[str]) -> float:
    return math.fsum(QUESTION_DISCOUNT if key in question else 1.0 for key in keys)


def _share(
    statement: Sentence, matched: Collection[str], question: Collection[str]
) -> float:
    """The share of a statement that is in `matched`, by weight; 0 if it has no
    weight."""
    total = _weight(statement.key_set, question)
    if not total:
        return 0.0
    return _weight(statement.key_set.intersection(matched), question) / total
