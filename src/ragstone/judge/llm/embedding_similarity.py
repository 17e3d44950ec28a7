"""Similarity of texts by a provider's embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ragstone.judge.llm.paid_calls import PaidCalls
from ragstone.judge.llm.provider import Usage
from ragstone.judge.llm.windows import tokens_at_most
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import Cosines, cosines_with_first
from ragstone.judge.untrusted_text import remove_hidden

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


class EmbeddingSimilarity(Struct, eq=False, kw_only=True):
    """Compares texts by their embeddings, with one request for each comparison."""

    make_embedder: Callable[[], OpenAIEmbedder]
    """Called for the first request: a run that finds everything in the cache never
    imports an SDK."""
    label: str
    calls: PaidCalls
    _embedder: OpenAIEmbedder | None = None

    async def cosines(
        self,
        text: str,
        other_texts: Sequence[str],
        *,
        call: Call,
        on_result: Callable[[Cosines], None] = lambda _: None,
    ) -> Cosines:
        # Providers refuse to embed an empty text.
        texts = [remove_hidden(item).strip() or "?" for item in (text, *other_texts)]
        if self._embedder is None:
            self._embedder = self.make_embedder()
        embedder = self._embedder

        async def attempt() -> Cosines:
            reply = await embedder.embed(texts)
            self.calls.book(Usage(input_tokens=reply.input_tokens), call)
            result = cosines_with_first(reply.vectors)
            on_result(result)
            return result

        max_usage = Usage(input_tokens=sum(map(tokens_at_most, texts)))
        return await self.calls.run(attempt, max_usage)

    async def close(self) -> None:
        """Wait for the requests in flight, and close the connections."""
        await self.calls.scheduler.drain()
        if self._embedder is not None:
            await self._embedder.close()
