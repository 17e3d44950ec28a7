"""A provider created on first use: a run that finds everything in the cache never loads an SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragstone.judge.llm.provider import ChatReply, ChatRequest, LiveProvider


class LazyProvider:
    """The provider that `make` creates on the first call."""

    def __init__(self, make: Callable[[], LiveProvider]) -> None:
        self._make = make
        self._made: LiveProvider | None = None

    @property
    def notes(self) -> Sequence[str]:
        return self._made.notes if self._made is not None else ()

    def made(self) -> LiveProvider:
        """The provider itself."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def client(self) -> Any:
        """The client of the provider itself."""
        return self.made().client

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.made().chat(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
