"""One question to the offline judge's support model, outside a judging round."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.judge.offline import evidence
from ragstone.judge.offline.evidence import match
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.model import load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import read_passage, read_sentence
from ragstone.judge.offline.rarity import Rarity


def holds(texts: Sequence[str], statement: str) -> bool:
    """Whether one of `texts` (at least one) holds `statement`, by the support model's own threshold."""
    weights = load_weights()
    model = weights.model("support", evidence.FEATURES)
    language = guess_language(normalise(texts[0]))
    sentence = read_sentence(normalise(statement), language)
    passages = [read_passage(text, language) for text in texts]
    found = match(sentence, passages, Rarity((), weights.everyday), language)
    return any(model.probability(one.features) >= model.threshold for one in found)
