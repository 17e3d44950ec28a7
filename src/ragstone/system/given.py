"""Wrappers of systems, and the one that gives a system the contexts of the golden set
in place of its own retrieval."""

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
    accepted_extras,
    session_of,
    takes_extra,
)


class SystemWrapper:
    """Passes everything on to `system`. Subclasses change how it is started, asked or
    closed."""

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
        """The extras that the system takes, known once it is started."""
        return accepted_extras(self._system)

    async def start(self) -> None:
        await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        return await self._system.ask(sample)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        """A session of the wrapped system, in a wrapper of the same kind."""
        async with session_of(self._system) as session:
            wrapper = copy(self)
            wrapper._system = session
            yield wrapper

    async def close(self) -> None:
        await self._system.close()


def refuse_without_contexts(system: System, option: str) -> None:
    """Raise SystemUnderTestError if it is known that the started `system` takes no
    contexts. `option` is the option or setting that gives it some."""
    if not system.can_be_asked_again:
        raise SystemUnderTestError(
            f"{option} gives the system contexts, but recorded answers can't be given any.",
            where=system.entrypoint,
            hint="Use an entrypoint that can be asked.",
        )
    if takes_extra(system, "contexts") is False:
        raise SystemUnderTestError(
            f"{option} gives the system contexts, but it takes none.",
            where=system.entrypoint,
            hint="Give it a parameter `contexts` beside the question, as docs/entrypoints.md says.",
        )


class GivenContexts(SystemWrapper):
    """A `system` of which only generation is evaluated: it gets the reference contexts
    with each question.

    An answer that comes without contexts gets the reference contexts as its own.
    """

    async def start(self) -> None:
        """Raises SystemUnderTestError, also if the system is known to take no
        contexts."""
        await self._system.start()
        # Recorded answers were generated from the contexts when they were recorded.
        if self.can_be_asked_again:
            refuse_without_contexts(self._system, 'part = "generation"')

    async def ask(self, sample: Sample) -> Response:
        response = await self._system.ask(sample)
        if response.failure is not None or response.contexts:
            return response
        contexts = tuple(map(Context, sample.reference_contexts))
        return replace(response, contexts=contexts, contexts_returned=True)


def has_other_contexts(response: Response, contexts: Sequence[str]) -> bool:
    """Whether `response` has a context other than the `contexts` that the system was
    given: it neither contains one of them, nor is contained in one."""
    texts = list(filter(None, map(_normalised, contexts)))
    for context in response.contexts:
        returned = _normalised(context.text)
        is_other = not any(returned in text or text in returned for text in texts)
        if returned and is_other:
            return True
    return False


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()
