"""How much of an answer its reference says, and of the reference the answer, statement
by statement."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.statement_evidence import Match, match

QUESTION_WEIGHT = 0.3
"""The weight of a word of the question in an answer or a reference, where other words
have the weight 1: repeating the question says little."""

MIN_AGREEING_SHARE = 0.5
"""The share of a statement, by weight, from which the other text agrees with it."""


class Agreement(Struct, frozen=True):
    """How much of a statement another text says."""

    weight: float
    """The weight of the statement: the sum of the weights of its words."""
    share: float
    """The share of the weight that the other text says, in [0, 1]; less if it
    contradicts the statement."""
    agrees: bool
    """Whether the other text says most of the statement, and all its numbers."""


def compare(
    statement: Sentence, passage: Passage, question_keys: Collection[str]
) -> Agreement:
    """How much of `statement` is in `passage`; `question_keys` count less."""
    evidence = match(statement, [passage])
    keys = evidence.keys_by_text[0]
    share = _share(statement, keys, question_keys) * (1 - evidence.conflict)
    is_similar = share >= MIN_AGREEING_SHARE
    return Agreement(
        weight=_weight(statement.key_set, question_keys),
        share=share,
        agrees=is_similar and statement.numbers <= keys,
    )


def compare_all(
    statements: Sequence[Sentence], passage: Passage, question_keys: Collection[str]
) -> list[Agreement]:
    """How much of each statement is in `passage`; `question_keys` count less."""
    return [compare(statement, passage, question_keys) for statement in statements]


def mean_share(agreements: Sequence[Agreement]) -> float | None:
    """The mean share of all statements, by their weights, in [0, 1]; None if their
    weights sum to 0."""
    total_weight = 0.0
    weighted_share = 0.0
    for agreement in agreements:
        total_weight += agreement.weight
        weighted_share += agreement.share * agreement.weight
    return min(1.0, weighted_share / total_weight) if total_weight else None


USE_FEATURES = ("share", "window")
"""The features from which a model tells whether a context is useful, each in [0, 1]:
the largest share of a statement that the context contains anywhere, and in neighbouring
sentences."""


def use_features(
    statements: Sequence[Sentence],
    matches: Sequence[Match],
    question_keys: Collection[str],
) -> list[tuple[float, float]]:
    """The USE_FEATURES of each context for `statements`, at least one, each of which
    was matched with every context; `question_keys` count less."""
    rows: list[tuple[float, float]] = []
    for rank in range(len(matches[0].keys_by_text)):
        share = 0.0
        window = 0.0
        for statement, evidence in zip(statements, matches, strict=True):
            keys = evidence.keys_by_text[rank]
            share = max(share, _share(statement, keys, question_keys))
            window = max(window, evidence.window_shares[rank])
        rows.append((share, window))
    return rows


def _weight(keys: Collection[str], question_keys: Collection[str]) -> float:
    return math.fsum(QUESTION_WEIGHT if key in question_keys else 1.0 for key in keys)


def _share(
    statement: Sentence, keys: Collection[str], question_keys: Collection[str]
) -> float:
    """The share of a statement, by weight, that is in `keys`; 0 if it has no
    weight."""
    total = _weight(statement.key_set, question_keys)
    if not total:
        return 0.0
    return _weight(statement.key_set.intersection(keys), question_keys) / total
