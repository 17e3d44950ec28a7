"""Similarity by a provider's embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ragstone.judge.llm.paid_calls import PaidCalls
from ragstone.judge.llm.provider import Usage
from ragstone.judge.llm.windows import tokens_at_most
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import Cosines, cosines
from ragstone.judge.untrusted_text import cleaned

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


class EmbeddingSimilarity(Struct, eq=False, kw_only=True):
    """Cosine of embeddings, by one request for the texts that are compared.

    `embedder` is called on the first request: a run that finds everything in the cache
    never loads an SDK.
    """

    embedder: Callable[[], OpenAIEmbedder]
    label: str
    calls: PaidCalls
    _made: OpenAIEmbedder | None = None

    async def similarities(
        self,
        question: str,
        texts: Sequence[str],
        *,
        call: Call,
        keep: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        compared = [cleaned(text).strip() or "?" for text in (question, *texts)]
        embedder = self._made = self._made or self.embedder()

        async def attempt() -> Cosines:
            reply = await embedder.embed(compared)
            self.calls.book(Usage(input_tokens=reply.input_tokens), call)
            values = cosines(reply.vectors)
            keep(values)
            return values

        likely = Usage(input_tokens=sum(map(tokens_at_most, compared)))
        return await self.calls.run(attempt, likely)

    async def close(self) -> None:
        """Wait for what was sent, and close the embedder."""
        await self.calls.scheduler.drain()
        if self._made is not None:
            await self._made.close()
