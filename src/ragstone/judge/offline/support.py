"""Whether the contexts support a statement: the trained model, and the penalty for conflicts."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragstone.judge.judgements import Support, Verdict
from ragstone.judge.offline.evidence import DOUBTS, FEATURES, Match, match
from ragstone.judge.offline.lexicon import Language, guess_language, read_data
from ragstone.judge.offline.model import Weights, load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Passage, Sentence, read_passage, read_sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import running, running_words

BASE_RATE = 0.85
"""The share of statements that are supported where the probabilities are calibrated."""

_VERBATIM = 0.998
"""The probability of a statement that stands in a context word for word."""

_STOP = re.compile(r"[.!?;,:\n。！？；，、]")

_AS_GOOD = 0.95
"""A context with this share of the best one's support also counts as supporting the statement."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The probability that the contexts together support a statement, and whether the nearest text contradicts it."""

    chance: float
    contradicts: bool
    match: Match


class SupportModel:
    """Rates statements against contexts with the shipped weights."""

    def __init__(self, weights: Weights, rarity: Rarity) -> None:
        self._model = weights.model("support", FEATURES)
        self._doubts = weights.factors("support", DOUBTS)
        self._whole = weights.model("whole", WHOLE_FEATURES)
        self._rarity = rarity

    def holds(self, rating: Rating) -> bool:
        """Whether a statement counts as supported: from the threshold on, and from the base rate if it conflicts."""
        return rating.chance >= (max(self._model.threshold, BASE_RATE) if rating.contradicts else self._model.threshold)

    def rate(self, statement: Sentence, contexts: Sequence[Passage], language: Language) -> Rating:
        """The rating of `statement` by all `contexts` together."""
        found = match(statement, contexts, self._rarity, language)
        if stands_in(statement.text, contexts, language):
            return Rating(_VERBATIM, False, found)
        chance = self._model.probability(found.features)
        for doubt, conflict in zip(self._doubts, found.conflicts, strict=True):
            if conflict:
                chance *= doubt
        return Rating(chance, any(found.conflicts), found)

    def whole(self, ratings: Sequence[Rating]) -> float:
        """The probability that every statement of an answer is supported: from 0.5 on if it is likelier than not where
        half of the answers of one statement are, and BASE_RATE of those of several.
        """
        found = whole_features([one.chance for one in ratings], [one.match.weight for one in ratings])
        return self._whole.probability(found)

    def verdict(self, statement_id: str, rating: Rating, sources: Sequence[str]) -> Support:
        """Supported if the contexts support it; else contradicted if something contradicts it; else unsupported."""
        if self.holds(rating):
            return Support(statement_id, Verdict.SUPPORTED, _supporting(rating.match, sources), rating.chance)
        verdict = Verdict.CONTRADICTED if rating.contradicts else Verdict.UNSUPPORTED
        return Support(statement_id, verdict, (), rating.chance)


WHOLE_FEATURES = ("product", "several")
"""The log-odds of the product of the statements' probabilities, where what says more counts more; and whether the
answer says several things: 0 for one statement, 1 from three on, or if it is as long as these.
"""

_ONE, _THREE = 12.0, 24.0
"""The weights of the words of a long statement, and of three."""


def whole_features(chances: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """The features of a text of several statements (at least one) of these `weights`."""
    said = total = sum(weights)
    if not total:
        weights, total = [1.0] * len(chances), len(chances)
    mean = sum(weight * math.log(chance) for chance, weight in zip(chances, weights, strict=True)) / total
    several = max((len(chances) - 1) / 2, (said - _ONE) / (_THREE - _ONE))
    return _log_odds(len(chances) * mean), min(1.0, several)


def _log_odds(log: float) -> float:
    """The log-odds of a probability whose logarithm is given."""
    return log - math.log(max(-math.expm1(log), 1e-9))


def even_odds(chance: float) -> float:
    """A statement's probability as it would be where as many are supported as not, in [0, 1]."""
    return chance * (1 - BASE_RATE) / (chance * (1 - BASE_RATE) + (1 - chance) * BASE_RATE)


def base_odds(chance: float) -> float:
    """The inverse of `even_odds`."""
    return chance * BASE_RATE / (chance * BASE_RATE + (1 - chance) * (1 - BASE_RATE))


def _supporting(found: Match, sources: Sequence[str]) -> tuple[str, ...]:
    """Each context that alone supports about as much as the best one, and those that add keys."""
    most = max(found.shares)
    chosen: set[int] = set()
    seen = 0
    for rank in sorted(range(len(found.shares)), key=found.shares.__getitem__, reverse=True):
        if found.shares[rank] >= _AS_GOOD * most or found.held[rank] & ~seen:
            chosen.add(rank)
            seen |= found.held[rank]
    return tuple(source for rank, source in enumerate(sources) if rank in chosen)


def stands_in(statement: str, contexts: Sequence[Passage], language: Language) -> bool:
    """Whether the words of `statement` follow each other in one of `contexts`, and nothing before them negates them."""
    wanted = running(statement)
    return bool(wanted.strip()) and any(
        not _negated(text, run.count(" ", 0, at), language)
        for context in contexts
        for text, run in context.running
        for at in _places(wanted, run)
    )


def _places(wanted: str, run: str) -> Iterator[int]:
    at = run.find(wanted)
    while at >= 0:
        yield at
        at = run.find(wanted, at + 1)


def _negated(text: str, words: int, language: Language) -> bool:
    """Whether a negation is between the word of `text` that follows `words` others and the stop before it."""
    lowered = text.lower()
    start = next((found.start() for rank, found in enumerate(running_words(lowered)) if rank == words), 0)
    before = _STOP.split(lowered[:start])[-1]
    if not language.spaced:
        return any(negation in before for negation in language.negations)
    return "n't" in before or any(found[0] in language.negations for found in running_words(before))


def holds(texts: Sequence[str], statement: str) -> bool:
    """Whether `texts` (at least one) together support `statement`, by the support model's own threshold."""
    weights = load_weights()
    model = SupportModel(weights, Rarity((), weights.everyday))
    language = guess_language(normalise(texts[0]))
    passages = [read_passage(text, language) for text in texts]
    return model.holds(model.rate(read_sentence(normalise(statement), language), passages, language))


def digest(read: Callable[[str], str] = read_data) -> str:
    """Eight hex digits that change with the weights, the judge's version and the word lists.

    Code that uses the judge's internals outside a judging round includes them in its own version.
    """
    found = hashlib.sha256()
    for name in ("weights.json", "lexicon.json", "wordforms.json"):
        found.update(read(name).encode())
    return found.hexdigest()[:8]
