"""Whether the contexts support a statement: one calibrated logistic over its
features."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragstone.judge.judgements import Support, Verdict, context_id
from ragstone.judge.offline.evidence import FEATURES, Match, match
from ragstone.judge.offline.model import load_model
from ragstone.judge.offline.passage import Passage, Sentence

BASE_RATE = 0.85
"""The share of statements that are supported where the probabilities are calibrated."""

_AS_GOOD = 0.95
"""A context with this share of the best one's keys also counts as supporting the
statement."""


class Rating(Struct, frozen=True):
    """The probability that the contexts together support a statement of `weight`
    content words, and how they match."""

    chance: float
    weight: int
    match: Match


class SupportModel:
    """Rates statements against contexts with the shipped weights."""

    def __init__(self) -> None:
        self._model = load_model("support", FEATURES)
        self._whole = load_model("whole", WHOLE_FEATURES)

    def rate(self, statement: Sentence, contexts: Sequence[Passage]) -> Rating:
        """The rating of `statement` by all `contexts` (at least one) together."""
        evidence = match(statement, contexts)
        return Rating(
            self._model.probability(evidence.features),
            len(statement.key_set) or 1,
            evidence,
        )

    def whole(self, ratings: Sequence[Rating]) -> float:
        """The probability that every statement of an answer is supported, for at least
        one rating."""
        chances = [rating.chance for rating in ratings]
        weights = [rating.weight for rating in ratings]
        return self._whole.probability(whole_features(chances, weights))

    def verdict(self, statement_id: str, rating: Rating) -> Support:
        """Supported from the threshold on, and where something contradicts it, from the
        base rate on; else contradicted or unsupported."""
        is_contradicted = rating.match.conflict > 0
        least = self._model.threshold
        if is_contradicted:
            least = max(least, BASE_RATE)
        if rating.chance >= least:
            # Each context that alone holds about as much as the best one, and those
            # that have keys that it lacks.
            matched = rating.match.matched
            best = max(matched, key=len)
            contexts = []
            for rank, keys in enumerate(matched):
                is_as_good = len(keys) >= _AS_GOOD * len(best)
                if is_as_good or keys - best:
                    contexts.append(context_id(rank))
            verdict = Verdict.SUPPORTED
            return Support(
                statement_id,
                verdict,
                tuple(contexts),
                rating.chance,
            )
        verdict = Verdict.CONTRADICTED if is_contradicted else Verdict.UNSUPPORTED
        return Support(
            statement_id,
            verdict,
            (),
            rating.chance,
        )


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
    logs = 0.0
    for chance, weight in zip(chances, weights, strict=True):
        logs += weight * math.log(chance)
    product = len(chances) * logs / total
    odds = product - math.log(max(-math.expm1(product), 1e-9))
    several = min(1.0, (len(chances) - 1) / (_MANY - 1))
    return odds, several, min(1.0, max(0.0, (total - _SHORT) / (_LONG - _SHORT)))
