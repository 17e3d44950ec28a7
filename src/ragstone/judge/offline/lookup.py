"""Queries the offline judge's support model outside a judging round."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from ragstone.judge.offline.lexicon import guess_language, read_data
from ragstone.judge.offline.model import load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import read_passage, read_sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.support import SupportModel


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
