"""Whether the contexts support a statement: one calibrated logistic over its
features."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragstone.judge.judgements import Support, Verdict, context_id
from ragstone.judge.offline.evidence import FEATURES, Match, match
from ragstone.judge.offline.lexicon import read_data
from ragstone.judge.offline.model import Weights
from ragstone.judge.offline.passage import Passage, Sentence

BASE_RATE = 0.85
"""The share of statements that are supported where the probabilities are calibrated."""

_AS_GOOD = 0.95
"""A context with this share of the best one's keys also counts as supporting the
statement."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The probability that the contexts together support a statement of `weight`
    content words, and how they match."""

    chance: float
    weight: int
    match: Match


class SupportModel:
    """Rates statements against contexts with the shipped weights."""

    def __init__(self, weights: Weights) -> None:
        self._model = weights.model("support", FEATURES)
        self._whole = weights.model("whole", WHOLE_FEATURES)

    def holds(self, rating: Rating) -> bool:
        """Whether a statement counts as supported: from the threshold on, and from the
        base rate if it conflicts."""
        least = (
            max(self._model.threshold, BASE_RATE)
            if rating.match.conflicts
            else self._model.threshold
        )
        return rating.chance >= least

    def rate(self, statement: Sentence, contexts: Sequence[Passage]) -> Rating:
        """The rating of `statement` by all `contexts` (at least one) together."""
        evidence = match(statement, contexts)
        return Rating(
            self._model.probability(evidence.features), len(statement.key_set), evidence
        )

    def whole(self, ratings: Sequence[Rating]) -> float:
        """The probability that every statement of an answer is supported, for at least
        one rating."""
        features = whole_features(
            [rating.chance for rating in ratings], [rating.weight for rating in ratings]
        )
        return self._whole.probability(features)

    def verdict(self, statement_id: str, rating: Rating) -> Support:
        """Supported if the contexts support it; else contradicted if something
        contradicts it; else unsupported."""
        if self.holds(rating):
            return Support(
                statement_id,
                Verdict.SUPPORTED,
                _supporting(rating.match.matched),
                rating.chance,
            )
        verdict = (
            Verdict.CONTRADICTED if rating.match.conflicts else Verdict.UNSUPPORTED
        )
        return Support(statement_id, verdict, (), rating.chance)


WHOLE_FEATURES = ("product", "several", "length")
"""The log-odds of the product of the statements' probabilities, where what says more
counts more; how many statements there are: 0 for one, 1 from three on; and how much
they say: 0 for up to 10 content words, 1 from 30 on.
"""

_MANY = 3
_SHORT, _LONG = 10, 30


def whole_features(
    chances: Sequence[float], weights: Sequence[float]
) -> tuple[float, float, float]:
    """The features of a text of several statements (at least one) of these
    `weights`."""
    total = sum(weights)
    if not total:
        weights, total = [1.0] * len(chances), len(chances)
    mean = (
        sum(
            weight * math.log(chance)
            for chance, weight in zip(chances, weights, strict=True)
        )
        / total
    )
    product = len(chances) * mean
    odds = product - math.log(max(-math.expm1(product), 1e-9))
    several = min(1.0, (len(chances) - 1) / (_MANY - 1))
    return odds, several, min(1.0, max(0.0, (total - _SHORT) / (_LONG - _SHORT)))


def _supporting(matched: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """Each context that alone holds about as much as the best one, and those that add
    keys; by its id."""
    most = max(map(len, matched))
    chosen: set[int] = set()
    covered = frozenset[str]()
    for rank in sorted(range(len(matched)), key=lambda rank: -len(matched[rank])):
        if len(matched[rank]) >= _AS_GOOD * most or matched[rank] - covered:
            chosen.add(rank)
            covered |= matched[rank]
    return tuple(map(context_id, sorted(chosen)))


def digest(read: Callable[[str], str] = read_data) -> str:
    """Eight hex digits that change with the weights, the judge's version and the word
    lists.

    Code that uses the judge's internals outside a judging round includes them in its
    own version.
    """
    hasher = hashlib.sha256()
    for name in ("weights.json", "lexicon.json", "wordforms.json"):
        hasher.update(read(name).encode())
    return hasher.hexdigest()[:8]
