"""Systems around another one, such as one that is given contexts: the golden set's, in
place of its own retrieval."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system.response import (
    Context,
    Response,
    System,
    accepted,
    session_of,
    takes,
)


class Wrapped:
    """`system` as it is. Subclasses change how it is started, asked or closed."""

    def __init__(self, system: System) -> None:
        self._system = system

    @property
    def entrypoint(self) -> str:
        return self._system.entrypoint

    @property
    def concurrency(self) -> int:
        return self._system.concurrency

    @property
    def can_be_asked_again(self) -> bool:
        return self._system.can_be_asked_again

    @property
    def accepts(self) -> frozenset[str] | None:
        """As the system says, once it is started."""
        return accepted(self._system)

    async def start(self) -> None:
        await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        return await self._system.ask(sample)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        """A session of the system, asked as this one asks."""
        async with session_of(self._system) as session:
            wrapper = copy(self)
            wrapper._system = session
            yield wrapper

    async def close(self) -> None:
        await self._system.close()


def refuse_without_contexts(system: System, why: str) -> None:
    """Raise SystemUnderTestError if it is known that the started `system` takes no
    contexts. `why` is what needs it, as a clause."""
    if not system.can_be_asked_again:
        raise SystemUnderTestError(
            f"{why} gives the system contexts, but recorded answers can't be given any.",
            where=system.entrypoint,
            hint="Use an entrypoint that can be asked.",
        )
    if takes(system, "contexts") is False:
        raise SystemUnderTestError(
            f"{why} gives the system contexts, but it takes none.",
            where=system.entrypoint,
            hint="Give it a parameter `contexts` beside the question, as docs/entrypoints.md says.",
        )


class GivenContexts(Wrapped):
    """`system`, which is given the reference contexts. They are the contexts of an
    answer that comes without any.

    Recorded answers are taken as they are: they were given to their generator when they
    were recorded.
    """

    async def start(self) -> None:
        """Raises SystemUnderTestError, also if the system is known to take no
        contexts."""
        await self._system.start()
        if self.can_be_asked_again:
            refuse_without_contexts(self._system, 'part = "generation"')

    async def ask(self, sample: Sample) -> Response:
        response = await self._system.ask(sample)
        if response.failure is not None or response.contexts:
            return response
        contexts = tuple(map(Context, sample.reference_contexts))
        return replace(response, contexts=contexts, contexts_returned=True)


def ignores(contexts: Sequence[str], response: Response) -> bool:
    """Whether a context of `response` is none of `contexts`, nor a part of one, nor has
    one as a part."""
    texts = list(map(_folded, contexts))
    for context in response.contexts:
        returned = _folded(context.text)
        if returned and not any(
            returned in text or text in returned for text in texts if text
        ):
            return True
    return False


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
