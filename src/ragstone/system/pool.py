"""A pool of child processes, each asked one question at a time.

The pool starts with one child and grows while questions wait, up to the concurrency. A
child that dies is replaced, and only its current sample fails. A session keeps a child
to itself. If no child can be started anymore, no more questions are asked.
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
"""So many children in a row may fail to start."""
MAX_PARALLEL_STARTS = 8
"""Imports are expensive: more at a time could run into the startup timeout."""
_RETRIED_KINDS = (
    SystemFailureKind.TIMEOUT,
    SystemFailureKind.CRASHED,
    SystemFailureKind.RAISED,
)


class PoolSession(SystemWrapper):
    """A session of a pool. All its questions go to one child, which is replaced if it
    dies."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._pool = pool
        # The child; None before the first question, and after the child's death.
        self.peer: LinePeer | None = None

    async def ask(self, sample: Sample) -> Response:
        return await self._pool.ask_in(self, sample)


class Pool:
    """A system whose questions are answered by a pool of child processes."""

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
        # One is acquired for each child that starts, answers, or has a session.
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._parallel_starts = asyncio.Semaphore(MAX_PARALLEL_STARTS)
        self._idle: deque[LinePeer] = deque()
        self._busy: set[LinePeer] = set()
        # Failures since the last start that succeeded.
        self._start_failures = 0
        # Why no more questions are asked, if that is so.
        self._stop_reason: str | None = None
        self._is_closed = False
        # The extras that the entrypoint takes besides the question, known once the
        # first child has started; None if that can't be known.
        self.accepts: frozenset[str] | None = None

    async def start(self) -> None:
        """Start the first child. Raises SystemUnderTestError."""
        try:
            peer = await self._start_peer()
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
        """Open a session in one child. Children of sessions count in the concurrency."""
        session = PoolSession(self)
        try:
            yield session
        finally:
            if session.peer is not None:
                await self._put_back(session.peer, is_reusable=True)

    async def ask_in(self, session: PoolSession, sample: Sample) -> Response:
        """Ask the child of `session`, and again after a failure that may not recur.

        If a failure names an environment variable that the system isn't given, its
        message says how to pass it.
        """
        failure = None
        for _ in range(self._retries + 1):
            response = await self._ask_once(session, sample)
            failure = response.failure
            if failure is None or failure.kind not in _RETRIED_KINDS:
                break
            if self._stop_reason is not None:
                break
        if failure is None:
            return response
        detail = failure.detail or ""
        hint = self._context.missing_variable_hint(f"{failure.message}\n{detail}")
        message = " ".join(filter(None, (failure.message, hint)))
        return replace(response, failure=replace(failure, message=message))

    async def close(self) -> None:
        self._is_closed = True
        peers = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(peer.end(kill=peer in self._busy) for peer in peers))
        self._busy.clear()
        self._context.log.close()

    async def _ask_once(self, session: PoolSession, sample: Sample) -> Response:
        """Ask one child after another until one gives a response or fails at the
        question. A child that ended before it got the question gives no response."""
        while True:
            peer = session.peer or await self._take()
            if peer is None:
                reason = self._stop_reason or "the system was closed"
                message = f"Not asked: {reason}"
                return failed(sample.id, SystemFailureKind.CRASHED, message)
            is_reusable = False
            try:
                attempt = await peer.ask(sample)
                is_reusable = attempt.is_peer_reusable
            finally:
                session.peer = peer if is_reusable else None
                if not is_reusable:
                    await self._put_back(peer, is_reusable=False)
            if attempt.response is not None:
                return attempt.response

    async def _take(self) -> LinePeer | None:
        """Acquire a slot, and take an idle child or start a new one. Returns None if
        the system is closed, or can't be started again."""
        await self._slots.acquire()
        try:
            while not self._is_closed and self._stop_reason is None:
                if self._idle:
                    peer = self._idle.popleft()
                    self._busy.add(peer)
                    return peer
                try:
                    peer = await self._start_peer()
                    self._start_failures = 0
                    return peer
                except Exception as error:
                    # Other questions must not wait forever, whatever the error.
                    await self._handle_start_failure(error)
        except BaseException:
            self._slots.release()
            raise
        self._slots.release()
        return None

    async def _handle_start_failure(self, error: Exception) -> None:
        """Count a child that could not be started, for which the caller has a slot.

        After too many failures, wait until a running child releases its slot, and
        acquire this as well. The caller has two slots then and releases only one, so
        the pool gets smaller by one child. If no child runs, no more questions are
        asked.
        """
        self._start_failures += 1
        # The caller tries once more, or takes the idle child.
        if self._start_failures < MAX_START_FAILURES or self._idle:
            return
        if self._busy:
            await self._slots.acquire()
            return
        reason = getattr(error, "message", error)
        self._stop_reason = f"the system could not be started again after {self._start_failures} attempts. {reason}"

    async def _start_peer(self) -> LinePeer:
        """Start a child, which counts as busy. Raises SystemUnderTestError."""
        peer = self._new_peer()
        self._busy.add(peer)
        try:
            async with self._parallel_starts:
                await peer.start()
            return peer
        except BaseException:
            self._busy.discard(peer)
            await peer.end(kill=True)
            raise

    async def _put_back(self, peer: LinePeer, *, is_reusable: bool) -> None:
        """Make a busy child idle, or end it, and release its slot."""
        self._busy.discard(peer)
        try:
            if is_reusable and not self._is_closed:
                self._idle.append(peer)
            else:
                await peer.end(kill=True)
        finally:
            self._slots.release()
