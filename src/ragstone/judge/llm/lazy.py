"""Providers created on first use: a run that finds everything in the cache never loads an SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragstone.judge.llm.provider import ChatReply, ChatRequest, Embedder, EmbedReply, Provider


class LazyProvider:
    """The provider that `make` creates on the first call."""

    def __init__(self, make: Callable[[], Provider]) -> None:
        self._make = make
        self._made: Provider | None = None

    @property
    def notes(self) -> Sequence[str]:
        return self._made.notes if self._made is not None else ()

    def made(self) -> Provider:
        """The provider itself."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.made().chat(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class LazyEmbedder:
    """The embedder that `make` creates on the first request; its label is known before."""

    def __init__(self, make: Callable[[], Embedder], *, label: str) -> None:
        self._make = make
        self._made: Embedder | None = None
        self._label = label

    @property
    def label(self) -> str:
        return self._label

    async def embed(self, texts: Sequence[str]) -> EmbedReply:
        if self._made is None:
            self._made = self._make()
        return await self._made.embed(texts)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
