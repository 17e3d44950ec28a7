"""Similarity of texts: the protocol, and a comparison by words for judges without
embeddings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.untrusted_text import remove_hidden

if TYPE_CHECKING:
    import numpy as np

Cosines = tuple[float, ...]
"""Cosines in [-1, 1], one for each of several texts, in order."""

_WORD = re.compile(r"\w+")


class Similarity(Protocol):
    """Compares a text with others."""

    @property
    def label(self) -> str:
        """A description for the judge's identity."""

    async def cosines(
        self,
        text: str,
        other_texts: Sequence[str],
        *,
        call: Call,
        on_result: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        """The cosine of `text` with each of `other_texts`, in [-1, 1].

        `on_result` is called with them, even if the caller was cancelled meanwhile.
        Raises JudgementFailed.
        """

    async def close(self) -> None:
        """Close connections."""


class LexicalSimilarity:
    """Compares texts by the numbers of their words and of the trigrams in these, each
    weighted by how rare it is in the golden set's questions.

    Used for a provider without embeddings. Cosines are in [0, 1] and lower than those
    of embeddings.
    """

    label = "words and trigrams 1"

    def __init__(self, questions: Iterable[str]) -> None:
        self._questions_with_term: Counter[str] = Counter()
        self._question_count = 0
        for question in questions:
            self._questions_with_term.update(set(_terms(question)))
            self._question_count += 1

    async def cosines(
        self,
        text: str,
        other_texts: Sequence[str],
        *,
        call: Call,  # noqa: ARG002
        on_result: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        vector = self._vector(text)
        result = tuple(_cosine(vector, self._vector(other)) for other in other_texts)
        on_result(result)
        return result

    async def close(self) -> None:
        pass

    def _vector(self, text: str) -> dict[str, float]:
        """The weight of each term of `text` (tf-idf)."""
        vector = {}
        for term, count in Counter(_terms(text)).items():
            # One question more, which has all terms, avoids a division by zero.
            inverse_share = (1 + self._question_count) / (
                1 + self._questions_with_term[term]
            )
            rarity = math.log(inverse_share) + 1
            vector[term] = count * rarity
        return vector


def cosines_with_first(vectors: np.ndarray) -> Cosines:
    """The cosine of the first row with each of the others, in [-1, 1]. Raises
    JudgementFailed for a row of zeros."""
    # Imported here: a run that finds everything in the cache compares nothing, and
    # starts sooner without numpy.
    import numpy as np

    norms = np.linalg.norm(vectors, axis=1)
    if not (norms > 0).all():
        raise JudgementFailed("the embedding model returned a vector of zeros")
    unit_vectors = vectors / norms[:, None]
    cosines = unit_vectors[1:] @ unit_vectors[0]
    return tuple(map(float, np.clip(cosines, -1.0, 1.0)))


def _terms(text: str) -> list[str]:
    """The words of `text`, and their trigrams, each with "#" before it."""
    words = _WORD.findall(remove_hidden(text).casefold())
    terms = list(words)
    for word in words:
        padded = f" {word} "
        terms += [f"#{padded[start : start + 3]}" for start in range(len(word))]
    return terms


def _cosine(first: dict[str, float], second: dict[str, float]) -> float:
    """The cosine of two vectors; 0 if one of them has no terms."""
    dot_product = sum(weight * second.get(term, 0.0) for term, weight in first.items())
    norms = math.sqrt(_squared_norm(first) * _squared_norm(second))
    return min(1.0, dot_product / norms) if norms else 0.0


def _squared_norm(vector: dict[str, float]) -> float:
    return sum(weight * weight for weight in vector.values())
