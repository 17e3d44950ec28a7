"""Concurrency and retries: the one policy for all calls to a provider."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from msgspec import Struct

from ragstone.errors import JudgeError
from ragstone.judge.llm.provider import Broken, Busy, Rejected
from ragstone.judge.protocol import DRAIN_S, JudgementFailed

MAX_ATTEMPTS = 5
"""Attempts per call; a refusal because of a rate limit (429) is none."""
MAX_LOST_CALLS = 5
"""So many calls in a row without a reply, after all attempts, end the run."""

_T = TypeVar("_T")
Attempt = Callable[[], Awaitable[_T]]
Late = Callable[[_T], None] | None
"""What takes a success whose caller was cancelled."""
_FIRST_CONCURRENCY = 4
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_MAX_SILENT_WAIT_S = 10.0
"""Between two requests to a provider that is over its limit and does not say for how
long."""
_STREAK = 3


class Clock(Struct, frozen=True):
    """Time, sleep and randomness, passed in so that tests can control them."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


REAL_CLOCK = Clock()


class Scheduler:
    """Runs attempts until one succeeds.

    Concurrency starts at four and grows by one per success, up to `concurrency`. When
    three calls in a row fail (or as many as are in flight, if those are fewer), it
    halves, once for all calls that were sent before that, and grows by one per round of
    calls from then on.

    A broken attempt is repeated up to MAX_ATTEMPTS times, after 0.5 s, doubling up to
    30 s. A call over a rate limit waits as long as the provider asks, else from 0.5 s
    up to 10 s; if a limit is reached for all calls, all wait. If no call is taken for
    `patience_s`, or the provider asks to wait longer, the run stops.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        timeout_s: float,
        patience_s: float = 600.0,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._clock = clock
        self._max = concurrency
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._limit = float(min(_FIRST_CONCURRENCY, concurrency))
        self._growth = 1.0
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sent = 0
        self._halved_at = 0
        self._paused_until = float("-inf")
        self._failures = 0
        self._pauses = 0
        self._refused_since: float | None = None
        self._lost_calls = 0
        self._stopped: JudgeError | None = None
        self._abandoned: set[asyncio.Future[Any]] = set()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    async def run(
        self,
        attempt: Attempt[_T],
        *,
        late: Late[_T] = None,
    ) -> _T:
        """The first success of `attempt`.

        If the caller is cancelled while an attempt is under way, its success is passed
        to `late`, if it comes within DRAIN_S; nothing more is sent. Raises
        JudgementFailed when this call can't succeed, JudgeError when no call can.
        """
        refused = 0
        while True:
            await self._acquire()
            try:
                reply = await self._attempts(attempt, late)
            except Busy as fault:
                refused += 1
                wait_s = self._over_limit(fault, refused)
            else:
                self._succeeded()
                return reply
            finally:
                self._release()
            await self._clock.sleep(wait_s)

    async def _attempts(self, attempt: Attempt[_T], late: Late[_T]) -> _T:
        """The first success of `attempt`. A broken attempt is repeated in the same
        place, so that others wait for it.

        Raises Busy at once.
        """
        broken = 0
        while True:
            await self._end_of_pause()
            self._sent += 1
            number = self._sent
            try:
                return await self._timed(attempt, late)
            except Rejected:
                self._succeeded()
                raise
            except JudgeError as error:
                self._stop(error)
            except Busy as fault:
                fault.number = number
                raise
            except Broken as fault:
                broken += 1
                wait_s = self._broken(fault, number, broken)
            await self._clock.sleep(wait_s)

    async def _timed(self, attempt: Attempt[_T], late: Late[_T]) -> _T:
        task = asyncio.ensure_future(attempt())
        try:
            await asyncio.wait((task,), timeout=self._timeout_s)
        except asyncio.CancelledError:
            self._abandon(task, late)
            raise
        if not (in_time := task.done()):
            task.cancel()
            await asyncio.wait((task,))
        try:
            return task.result()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if in_time:
                raise
        raise Broken(f"no reply within {self._timeout_s:g} s")

    def _abandon(self, task: asyncio.Future[_T], late: Late[_T]) -> None:
        def ended(_: asyncio.Future[_T]) -> None:
            self._abandoned.discard(task)
            if not task.cancelled() and task.exception() is None and late is not None:
                late(task.result())

        self._abandoned.add(task)
        task.add_done_callback(ended)
        asyncio.get_running_loop().call_later(DRAIN_S, task.cancel)

    async def drain(self) -> None:
        """Wait for the calls that were under way when their callers were cancelled."""
        if self._abandoned:
            await asyncio.wait(self._abandoned)

    async def _acquire(self) -> None:
        """Wait for a place among the calls in flight."""
        self._refuse_if_stopped()
        if self._waiting or self._in_flight >= self.limit:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._release()
                raise
        else:
            self._in_flight += 1

    async def _end_of_pause(self) -> None:
        self._refuse_if_stopped()
        while (wait_s := self._paused_until - self._clock.now()) > 0:
            await self._clock.sleep(wait_s)
            self._refuse_if_stopped()

    def _release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (
            self._in_flight < self.limit or self._stopped is not None
        ):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def _succeeded(self) -> None:
        self._failures = self._lost_calls = 0
        self._pauses = max(0, self._pauses - 1)
        self._refused_since = None
        if self._in_flight >= self.limit - 1:
            growth = self._growth if self._growth == 1.0 else 1.0 / self._limit
            self._limit = min(float(self._max), self._limit + growth)

    def _failed(self, number: int) -> bool:
        """Count the failure of the call that was the `number`-th; whether so many in a
        row fail that all should wait.

        Calls sent before concurrency was halved say nothing new.
        """
        self._failures += 1
        if self._failures < min(_STREAK, self.limit) or number <= self._halved_at:
            return False
        self._halved_at = self._sent
        self._growth = 0.0
        least = float(min(2, self._max))
        self._limit = max(least, self._limit / 2)
        return True

    def _over_limit(self, fault: Busy, refused: int) -> float:
        """Book a call that was refused because of a limit; returns the seconds that it
        waits."""
        now = self._clock.now()
        wait_s = fault.retry_after_s
        self._refused_since = (
            now if self._refused_since is None else self._refused_since
        )
        behaviour = ""
        if wait_s is not None and wait_s > self._patience_s:
            behaviour = f"asks to wait {wait_s:.0f} s"
        elif now - self._refused_since > self._patience_s:
            behaviour = f"has refused every call for {self._patience_s:.0f} s"
        if behaviour:
            error = JudgeError(
                f"the provider {behaviour}: {fault.reason}",
                where="judge.patience_s",
                hint="Finished samples are saved. Run again with --resume when the limit has been reset.",
            )
            self._stop(error)
        if self._failed(fault.number):
            pause_s = (
                min(_MAX_SILENT_WAIT_S, 2.0**self._pauses) if wait_s is None else wait_s
            )
            self._pauses += 1
            self._paused_until = max(self._paused_until, now + pause_s)
        if wait_s is None:
            wait_s = min(_MAX_SILENT_WAIT_S, _FIRST_BACKOFF_S * 2.0 ** (refused - 1))
        return wait_s * self._clock.uniform(1.0, 1.05)

    def _broken(self, fault: Broken, number: int, broken: int) -> float:
        """Book a broken attempt; returns the seconds until the next. Raises
        JudgementFailed after the last."""
        self._failed(number)
        if broken < MAX_ATTEMPTS:
            backoff_s = min(
                _MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** (broken - 1)
            ) * self._clock.uniform(0.5, 1.0)
            return max(backoff_s, min(_MAX_BACKOFF_S, fault.retry_after_s or 0.0))
        self._lost_calls += 1
        if self._lost_calls >= MAX_LOST_CALLS:
            error = JudgeError(
                f"the judge failed {self._lost_calls} calls in a row: {fault.reason}",
                where="judge",
                hint="Finished samples are saved. Check the judge's address and state, then run again with --resume.",
            )
            self._stop(error)
        raise JudgementFailed(f"no reply after {MAX_ATTEMPTS} attempts: {fault.reason}")

    def _stop(self, error: JudgeError) -> NoReturn:
        """Raise `error` here, and in every call that is waiting or comes later."""
        if self._stopped is None:
            self._stopped = error
        self._admit()
        raise error

    def _refuse_if_stopped(self) -> None:
        if self._stopped is not None:
            # A new error each time: one raised in many tasks would collect all their
            # tracebacks.
            raise copy.copy(self._stopped)
