"""Whether the contexts support a statement, by a calibrated logistic model of the
evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragstone.judge.judgements import Support, Verdict, context_id
from ragstone.judge.offline.model import load_model
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.statement_evidence import FEATURES, Match, match
from ragstone.judge.offline.tokens import KeySet

BASE_RATE = 0.85
"""The share of supported statements for which the probabilities are calibrated."""

_MIN_SHARE_OF_BEST = 0.95
"""A context with this share of the best context's keys supports the statement, too."""


class Rating(Struct, frozen=True):
    """How the contexts together support a statement."""

    probability: float
    """The probability that they support it."""
    weight: int
    """The number of its content words, at least 1."""
    match: Match


class SupportModel:
    """Rates statements against contexts, with the weights in weights.json."""

    def __init__(self) -> None:
        self._statement_model = load_model("support", FEATURES)
        self._all_supported_model = load_model("whole", ALL_SUPPORTED_FEATURES)

    def rate(self, statement: Sentence, contexts: Sequence[Passage]) -> Rating:
        """Rate `statement` against all `contexts` (at least one) together."""
        evidence = match(statement, contexts)
        return Rating(
            self._statement_model.probability(evidence.features),
            weight=len(statement.key_set) or 1,
            match=evidence,
        )

    def probability_of_all(self, ratings: Sequence[Rating]) -> float:
        """The probability that every statement of an answer is supported, by the
        ratings of its statements (at least one)."""
        probabilities = [rating.probability for rating in ratings]
        weights = [rating.weight for rating in ratings]
        return self._all_supported_model.probability(
            all_supported_features(probabilities, weights)
        )

    def verdict(self, statement_id: str, rating: Rating) -> Support:
        """The verdict by the rating of a statement: supported from the model's
        threshold on, else unsupported or, where a context conflicts with it,
        contradicted.

        A statement with a conflict is supported only if it is at least as probable as a
        statement in general.
        """
        is_contradicted = rating.match.conflict > 0
        threshold = self._statement_model.threshold
        if is_contradicted:
            threshold = max(threshold, BASE_RATE)
        verdict = Verdict.CONTRADICTED if is_contradicted else Verdict.UNSUPPORTED
        contexts: tuple[str, ...] = ()
        if rating.probability >= threshold:
            verdict = Verdict.SUPPORTED
            contexts = _supporting_contexts(rating.match.keys_by_text)
        return Support(statement_id, verdict, contexts, rating.probability)


def _supporting_contexts(keys_by_text: Sequence[KeySet]) -> tuple[str, ...]:
    """The ids of the contexts that contain about as many keys as the best one, or keys
    that the best one lacks."""
    best = max(keys_by_text, key=len)
    contexts = []
    for rank, keys in enumerate(keys_by_text):
        is_as_good = len(keys) >= _MIN_SHARE_OF_BEST * len(best)
        if is_as_good or keys - best:
            contexts.append(context_id(rank))
    return tuple(contexts)


ALL_SUPPORTED_FEATURES = ("product", "several", "length")
"""The features from which a model tells whether all statements of an answer are
supported: the log-odds of the product of their probabilities, where longer statements
count more; how many statements there are, from 0 for one to 1 for _MANY_STATEMENTS; and
how many content words they have, from 0 for _SHORT_WORDS to 1 for _LONG_WORDS."""

_MANY_STATEMENTS = 3
_SHORT_WORDS = 10
_LONG_WORDS = 30


def all_supported_features(
    probabilities: Sequence[float], weights: Sequence[float]
) -> tuple[float, float, float]:
    """The ALL_SUPPORTED_FEATURES of statements (at least one) with these probabilities and
    numbers of content words."""
    count = len(probabilities)
    words = sum(weights)
    weighted_logs = 0.0
    for probability, weight in zip(probabilities, weights, strict=True):
        weighted_logs += weight * math.log(probability)
    # The logarithm of the product, as if all statements had the mean weight.
    log_product = count * weighted_logs / words
    log_odds = log_product - math.log(max(-math.expm1(log_product), 1e-9))
    several = min(1.0, (count - 1) / (_MANY_STATEMENTS - 1))
    length = (words - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)
    return log_odds, several, min(1.0, max(0.0, length))
