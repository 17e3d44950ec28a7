"""Whether passages hold a statement: the trained model, and the rule for contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.judge.judgements import Support, Verdict
from ragstone.judge.offline import evidence
from ragstone.judge.offline.evidence import match
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.model import Weights
from ragstone.judge.offline.passage import Passage, Sentence, join
from ragstone.judge.offline.rarity import Rarity

_WINDOW = evidence.FEATURES.index("held_by_window")
_DOUBT = 0.3
"""What is left of a probability where the passage contradicts the statement."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The probability that one passage holds a statement, and whether it contradicts it.

    `window` is the share of the statement, in [0, 1], that neighbouring sentences hold.
    """

    chance: float
    contradicts: bool
    window: float


class SupportModel:
    """Rates statements against passages with the shipped weights."""

    def __init__(self, weights: Weights, rarity: Rarity) -> None:
        self._model = weights.model("support", evidence.FEATURES)
        self._rarity = rarity

    @property
    def threshold(self) -> float:
        """From which probability on a statement counts as supported."""
        return self._model.threshold

    def rate(self, statement: Sentence, passages: Sequence[Passage], language: Language) -> list[Rating]:
        """One rating a passage, in order."""
        return [
            Rating(
                chance=self._model.probability(one.features) * (_DOUBT if one.contradicts else 1.0),
                contradicts=one.contradicts,
                window=one.features[_WINDOW],
            )
            for one in match(statement, passages, self._rarity, language)
        ]

    def together(self, answer: Sentence, passages: Sequence[Passage], language: Language) -> float:
        """The probability that the passages together hold a whole answer, given as one sentence."""
        (found,) = match(answer, [join(passages)], self._rarity, language)
        return self._model.probability(found.features)

    def verdict(self, statement_id: str, ratings: Sequence[Rating], sources: Sequence[str]) -> Support:
        """Supported by whatever holds it; else contradicted where something contradicts it; else unsupported."""
        holding = tuple(
            source for source, one in zip(sources, ratings, strict=True) if one.chance >= self._model.threshold
        )
        if holding:
            verdict = Verdict.SUPPORTED
        elif any(one.contradicts for one in ratings):
            verdict = Verdict.CONTRADICTED
        else:
            verdict = Verdict.UNSUPPORTED
        return Support(statement_id, verdict, holding, max(one.chance for one in ratings))
