"""A pool of child processes, each asked one question at a time.

It starts with one child and grows while questions wait, up to the concurrency. A child
that dies is replaced, and only its current sample fails. A session keeps a child to
itself. A system that can't start again gets no more questions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import ChildContext
from ragstone.system.given import SystemWrapper
from ragstone.system.line_peer import LinePeer
from ragstone.system.payload import failed
from ragstone.system.response import Response, System, SystemFailureKind

MAX_START_FAILURES = 3
MAX_STARTING = 8  # at once: imports are expensive, and too many of them run into the startup timeout
_RETRIED = (
    SystemFailureKind.TIMEOUT,
    SystemFailureKind.CRASHED,
    SystemFailureKind.RAISED,
)


class PoolSession(SystemWrapper):
    """A session of a pool, in one child, from its first question on. A child that dies
    is replaced."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._pool = pool
        self.peer: LinePeer | None = None

    async def ask(self, sample: Sample) -> Response:
        return await self._pool.ask_in(self, sample)


class Pool:
    can_be_asked_again = True

    def __init__(
        self,
        entrypoint: str,
        settings: SystemSettings,
        new_peer: Callable[[], LinePeer],
        context: ChildContext,
    ) -> None:
        self.entrypoint = entrypoint
        self.concurrency = settings.concurrency
        self._retries = settings.retries
        self._new_peer = new_peer
        self._context = context
        self._slots = asyncio.Semaphore(settings.concurrency)
        """One is held for each child that starts, answers, or has a session."""
        self._starts = asyncio.Semaphore(MAX_STARTING)
        self._idle: deque[LinePeer] = deque()
        self._busy: set[LinePeer] = set()
        self._start_failures = 0
        self._given_up: str | None = None
        self._closed = False
        self.accepts: frozenset[str] | None = None
        """What the entrypoint takes besides the question, found at the start; None if
        that can't be known."""

    async def start(self) -> None:
        """Start the first child. Raises SystemUnderTestError."""
        try:
            peer = await self._started()
        except SystemUnderTestError as error:
            hints = (self._context.missing_variable_hint(error.message), error.hint)
            hint = " ".join(filter(None, hints)) or None
            raise SystemUnderTestError(
                error.message, where=error.where, hint=hint
            ) from None
        self.accepts = peer.accepts
        self._busy.remove(peer)
        self._idle.append(peer)

    async def ask(self, sample: Sample) -> Response:
        async with self.session() as session:
            return await session.ask(sample)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        """A session in one child. Children of sessions count in the concurrency."""
        session = PoolSession(self)
        try:
            yield session
        finally:
            if session.peer is not None:
                await self._put_back(session.peer, reusable=True)

    async def ask_in(self, session: PoolSession, sample: Sample) -> Response:
        """The response of the child of `session`. A failure that names variables which
        the system doesn't get says how to pass them."""
        failure = None
        for _ in range(self._retries + 1):
            response = await self._ask_once(session, sample)
            failure = response.failure
            if failure is None or failure.kind not in _RETRIED or self._given_up:
                break
        if failure is None:
            return response
        detail = failure.detail or ""
        hint = self._context.missing_variable_hint(f"{failure.message}\n{detail}")
        message = " ".join(filter(None, (failure.message, hint)))
        return replace(response, failure=replace(failure, message=message))

    async def close(self) -> None:
        self._closed = True
        peers = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(peer.end(kill=peer in self._busy) for peer in peers))
        self._busy.clear()
        self._context.log.close()

    async def _ask_once(self, session: PoolSession, sample: Sample) -> Response:
        while True:
            peer = session.peer or await self._take()
            if peer is None:
                why = self._given_up or "the system was closed"
                return failed(sample.id, SystemFailureKind.CRASHED, f"Not asked: {why}")
            reusable = False
            try:
                attempt = await peer.ask(sample)
                reusable = attempt.reusable
            finally:
                session.peer = peer if reusable else None
                if not reusable:
                    await self._put_back(peer, reusable=False)
            if attempt.response is not None:
                return attempt.response

    async def _take(self) -> LinePeer | None:
        """An idle child, or else a new one, with a slot; None if the system is closed,
        or can't start again."""
        await self._slots.acquire()
        try:
            while not self._closed and self._given_up is None:
                if self._idle:
                    peer = self._idle.popleft()
                    self._busy.add(peer)
                    return peer
                try:
                    peer = await self._started()
                    self._start_failures = 0
                    return peer
                except Exception as error:
                    # Other questions must not wait forever, whatever the error.
                    await self._note_start_failure(error)
        except BaseException:
            self._slots.release()
            raise
        self._slots.release()
        return None

    async def _note_start_failure(self, error: Exception) -> None:
        """After too many failures, wait for a slot of the children that live, in place
        of the own one; give up if there are none."""
        self._start_failures += 1
        if self._start_failures < MAX_START_FAILURES or self._idle:
            return
        if self._busy:
            await self._slots.acquire()
            return
        why = getattr(error, "message", error)
        self._given_up = (
            f"it could not be started again ({self._start_failures} attempts). {why}"
        )

    async def _started(self) -> LinePeer:
        peer = self._new_peer()
        self._busy.add(peer)
        try:
            async with self._starts:
                await peer.start()
            return peer
        except BaseException:
            self._busy.discard(peer)
            await peer.end(kill=True)
            raise

    async def _put_back(self, peer: LinePeer, *, reusable: bool) -> None:
        self._busy.discard(peer)
        try:
            if reusable and not self._closed:
                self._idle.append(peer)
            else:
                await peer.end(kill=True)
        finally:
            self._slots.release()
