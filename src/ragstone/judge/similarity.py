"""Text similarity: the protocol, and a word-based version for when no embedding model
is available."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.untrusted_text import cleaned

if TYPE_CHECKING:
    import numpy as np

Cosines = tuple[float, ...]

_WORD = re.compile(r"\w+")


class Similarity(Protocol):
    """Compares a question with others."""

    @property
    def label(self) -> str:
        """A description for the judge's identity."""

    async def similarities(
        self,
        question: str,
        texts: Sequence[str],
        *,
        call: Call,
        keep: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        """The cosine of `question` with each of `texts`, in [-1, 1]. `keep` is called
        with them, also if the caller was cancelled meanwhile. Raises JudgementFailed.
        """

    async def close(self) -> None: ...


class LexicalSimilarity:
    """Cosine of word and letter-trigram counts, words weighted by how rare they are
    among the golden set's questions.

    The documented fallback for a provider without embeddings. Values are in [0, 1] and
    lower than those of embeddings.
    """

    label = "words and trigrams 1"

    def __init__(self, questions: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._total = 0
        for question in questions:
            self._counts.update(set(_terms(question)))
            self._total += 1

    async def similarities(
        self,
        question: str,
        texts: Sequence[str],
        *,
        call: Call,  # noqa: ARG002
        keep: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        question_vector = self._vector(question)
        values = tuple(_cosine(question_vector, self._vector(text)) for text in texts)
        keep(values)
        return values

    async def close(self) -> None:
        pass

    def _vector(self, text: str) -> dict[str, float]:
        vector = {}
        for term, n in Counter(_terms(text)).items():
            share = (1 + self._total) / (1 + self._counts[term])
            rarity = math.log(share) + 1
            vector[term] = n * rarity
        return vector


def cosines(vectors: np.ndarray) -> Cosines:
    """The cosine of the first row with each of the others, in [-1, 1]. Raises
    JudgementFailed for a row of zeros."""
    # Imported here: a run that finds everything in the cache compares nothing, and
    # starts sooner without numpy.
    import numpy as np

    norms = np.linalg.norm(vectors, axis=1)
    if not (norms > 0).all():
        raise JudgementFailed("the embedding model returned an empty vector")
    unit = vectors / norms[:, None]
    cosines = np.clip(unit[1:] @ unit[0], -1.0, 1.0)
    return tuple(map(float, cosines))


def _terms(text: str) -> list[str]:
    words = _WORD.findall(cleaned(text).casefold())
    terms = list(words)
    for word in words:
        padded = f" {word} "
        terms += [f"#{padded[at : at + 3]}" for at in range(len(word))]
    return terms


def _cosine(first: dict[str, float], second: dict[str, float]) -> float:
    dot = sum(weight * second.get(term, 0.0) for term, weight in first.items())
    norms = math.sqrt(_squared(first) * _squared(second))
    return min(1.0, dot / norms) if norms else 0.0


def _squared(vector: dict[str, float]) -> float:
    return sum(weight * weight for weight in vector.values())
