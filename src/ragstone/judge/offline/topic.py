"""Is an answer on its question's topic, by the meaning of sentences: embeddings, if the
user configures a model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from ragstone.judge.protocol import Call, JudgementFailed

if TYPE_CHECKING:
    from ragstone.judge.similarity import Similarity

UNRELATED = (
    "How long do bees live?",
    "Who won the chess championship in 1972?",
    "What is the capital of Peru?",
    "Why does bread rise in the oven?",
    "How do I reset my password?",
    "When was the printing press invented?",
    "Which planet has the most moons?",
    "How much tax is due on a used car?",
)
"""Questions that have nothing in common except that they are questions."""

_MAX_ZERO = 0.99


class Topic:
    """How near an answer is to its question, on the same scale for all embedding
    models.

    The cosine of unrelated texts is near 0 in some models and above 0.7 in others. The
    scale therefore starts at the model's own zero, the mean cosine of UNRELATED
    questions: (cosine - zero) ÷ (1 - zero), in [0, 1]. The zero is computed once.
    """

    def __init__(
        self,
        similarity: Similarity,
        closers: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._similarity = similarity
        self.label = similarity.label
        self._closers = closers
        self._zero: float | None = None
        self._finding = asyncio.Lock()

    async def nearnesses(
        self, text: str, texts: Sequence[str], *, call: Call
    ) -> tuple[float, ...]:
        """How near each of `texts` is to `text`, in [0, 1]: 0 as unrelated questions
        are, 1 for the same.

        Raises JudgementFailed.
        """
        zero = await self._model_zero(call)
        cosines = await self._similarity.similarities(text, texts, call=call)
        return tuple(
            min(1.0, max(0.0, (cosine - zero) / (1.0 - zero))) for cosine in cosines
        )

    async def cosines(
        self, text: str, texts: Sequence[str], *, call: Call
    ) -> tuple[float, ...]:
        """The plain cosine of `text` with each of `texts`, in [-1, 1]. Raises
        JudgementFailed."""
        return await self._similarity.similarities(text, texts, call=call)

    async def _model_zero(self, call: Call) -> float:
        async with self._finding:
            if self._zero is None:
                rows = await asyncio.gather(
                    *(
                        self._similarity.similarities(
                            text, UNRELATED[at + 1 :], call=call
                        )
                        for at, text in enumerate(UNRELATED[:-1])
                    )
                )
                self._zero = fmean(itertools.chain.from_iterable(rows))
            if self._zero > _MAX_ZERO:
                raise JudgementFailed(
                    "the embedding model does not tell unrelated texts apart"
                )
            return self._zero

    async def close(self) -> None:
        for close in self._closers:
            await close()
