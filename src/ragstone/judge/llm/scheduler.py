"""Concurrency and retries of all calls to a provider."""

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
from ragstone.judge.llm.provider import RateLimited, Rejected, TemporaryFault
from ragstone.judge.protocol import DRAIN_S, JudgementFailed

MAX_ATTEMPTS = 5
"""Attempts per call. One that is refused because of a rate limit does not count."""
MAX_LOST_CALLS = 5
"""The number of calls in a row without a reply, after all attempts, that ends the
run."""

_T = TypeVar("_T")
Attempt = Callable[[], Awaitable[_T]]
LateCallback = Callable[[_T], None] | None
"""Called with the result of an attempt that succeeds after its caller was cancelled."""
_FIRST_CONCURRENCY = 4
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_MAX_UNSTATED_WAIT_S = 10.0
"""The longest wait after a refusal because of a rate limit that names no wait."""
_FAILURES_TO_SLOW_DOWN = 3
"""The number of failures in a row after which fewer calls are made at once."""


class Clock(Struct, frozen=True):
    """Time, sleep and randomness, which tests replace."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


REAL_CLOCK = Clock()


class Scheduler:
    """Makes calls: limits how many are in flight, and repeats failed attempts.

    Concurrency starts at four and grows by one per success, up to `concurrency`. When
    three calls in a row fail (or as many as may be in flight, if those are fewer), it
    halves, once for all calls that were sent before that. From then on it grows by one
    when as many calls as may be in flight have succeeded.

    A call with a temporary fault is tried up to MAX_ATTEMPTS times, after 0.5 s,
    doubling up to 30 s. A call over a rate limit waits as long as the provider asks,
    else from 0.5 s up to 10 s; if several in a row are over it, all calls wait. The run
    ends if no call is accepted for `patience_s`, or the provider asks to wait longer.
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
        self._max_concurrency = concurrency
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._limit = float(min(_FIRST_CONCURRENCY, concurrency))
        self._was_halved = False
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._attempts_sent = 0
        self._attempts_sent_at_halving = 0
        self._paused_until = float("-inf")
        self._failures_in_a_row = 0
        self._pauses = 0
        self._refused_since: float | None = None
        self._lost_calls_in_a_row = 0
        self._stop_error: JudgeError | None = None
        self._cancelled_calls: set[asyncio.Future[Any]] = set()

    @property
    def limit(self) -> int:
        """How many calls may be in flight at the moment."""
        return int(self._limit)

    async def run(
        self,
        attempt: Attempt[_T],
        *,
        on_late: LateCallback[_T] = None,
    ) -> _T:
        """Call `attempt` until it succeeds, and return its result.

        If the caller is cancelled during an attempt that succeeds within DRAIN_S,
        `on_late` is called with the result; nothing more is sent. Raises
        JudgementFailed or Rejected when this call can't succeed, JudgeError when no
        call can.
        """
        refusals = 0
        while True:
            await self._enter()
            try:
                result = await self._first_success(attempt, on_late)
            except RateLimited as fault:
                refusals += 1
                wait_s = self._record_refusal(fault, refusals)
            else:
                self._record_success()
                return result
            finally:
                self._leave()
            await self._clock.sleep(wait_s)

    async def _first_success(
        self, attempt: Attempt[_T], on_late: LateCallback[_T]
    ) -> _T:
        """Repeat `attempt` after temporary faults until it succeeds; it stays in flight
        meanwhile, so that other calls wait. Raises RateLimited at once."""
        failed_attempts = 0
        while True:
            await self._wait_for_end_of_pause()
            self._attempts_sent += 1
            attempt_number = self._attempts_sent
            try:
                return await self._call_with_timeout(attempt, on_late)
            except Rejected:
                # A refusal of this one request: the provider is well.
                self._record_success()
                raise
            except JudgeError as error:
                self._stop(error)
            except RateLimited as fault:
                fault.attempt_number = attempt_number
                raise
            except TemporaryFault as fault:
                failed_attempts += 1
                wait_s = self._record_temporary_fault(
                    fault, attempt_number, failed_attempts
                )
            await self._clock.sleep(wait_s)

    async def _call_with_timeout(
        self, attempt: Attempt[_T], on_late: LateCallback[_T]
    ) -> _T:
        """The result of one `attempt`. Raises TemporaryFault after the time limit."""
        task = asyncio.ensure_future(attempt())
        try:
            await asyncio.wait((task,), timeout=self._timeout_s)
        except asyncio.CancelledError:
            self._await_late(task, on_late)
            raise
        is_in_time = task.done()
        if not is_in_time:
            task.cancel()
            await asyncio.wait((task,))
        try:
            return task.result()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if is_in_time:
                raise
        raise TemporaryFault(f"no reply within {self._timeout_s:g} s")

    def _await_late(self, task: asyncio.Future[_T], on_late: LateCallback[_T]) -> None:
        """Let the call of a cancelled caller run on for DRAIN_S."""

        def end(_: asyncio.Future[_T]) -> None:
            self._cancelled_calls.discard(task)
            has_result = not task.cancelled() and task.exception() is None
            if has_result and on_late is not None:
                on_late(task.result())

        self._cancelled_calls.add(task)
        task.add_done_callback(end)
        asyncio.get_running_loop().call_later(DRAIN_S, task.cancel)

    async def drain(self) -> None:
        """Wait for the calls that were in flight when their callers were cancelled."""
        if self._cancelled_calls:
            await asyncio.wait(self._cancelled_calls)

    async def _enter(self) -> None:
        """Wait until one more call may be in flight, and count it."""
        self._raise_if_stopped()
        if self._waiting or self._in_flight >= self.limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Cancelled after it was counted, and before it could go on.
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self._in_flight += 1

    async def _wait_for_end_of_pause(self) -> None:
        self._raise_if_stopped()
        while (wait_s := self._paused_until - self._clock.now()) > 0:
            await self._clock.sleep(wait_s)
            self._raise_if_stopped()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Let as many waiting calls go on as may be in flight; all of them once the
        scheduler is stopped, to end with its error."""
        while self._waiting and (
            self._in_flight < self.limit or self._stop_error is not None
        ):
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _record_success(self) -> None:
        self._failures_in_a_row = 0
        self._lost_calls_in_a_row = 0
        self._pauses = max(0, self._pauses - 1)
        self._refused_since = None
        # A limit that is not reached has not been tried, so it doesn't grow.
        if self._in_flight >= self.limit - 1:
            growth = 1.0 / self._limit if self._was_halved else 1.0
            self._limit = min(float(self._max_concurrency), self._limit + growth)

    def _record_failure(self, attempt_number: int) -> bool:
        """Count a failed attempt, and halve the concurrency if enough fail in a row;
        return whether it was halved.

        Attempts that were sent before it was last halved say nothing about it.
        """
        self._failures_in_a_row += 1
        is_streak = self._failures_in_a_row >= min(_FAILURES_TO_SLOW_DOWN, self.limit)
        if not is_streak or attempt_number <= self._attempts_sent_at_halving:
            return False
        self._attempts_sent_at_halving = self._attempts_sent
        self._was_halved = True
        min_limit = float(min(2, self._max_concurrency))
        self._limit = max(min_limit, self._limit / 2)
        return True

    def _record_refusal(self, fault: RateLimited, refusals: int) -> float:
        """Record that a call was refused because of a rate limit, `refusals` times by
        now; return the seconds that it must wait.

        Raises JudgeError if that takes more patience than the run has.
        """
        now = self._clock.now()
        wait_s = fault.retry_after_s
        if self._refused_since is None:
            self._refused_since = now
        problem = ""
        if wait_s is not None and wait_s > self._patience_s:
            problem = f"asks to wait {wait_s:.0f} s"
        elif now - self._refused_since > self._patience_s:
            problem = f"has refused every call for {self._patience_s:.0f} s"
        if problem:
            error = JudgeError(
                f"the provider {problem}: {fault.reason}",
                where="judge.patience_s",
                hint="Finished samples are saved. Run again with --resume when the limit has been reset.",
            )
            self._stop(error)
        if self._record_failure(fault.attempt_number):
            pause_s = wait_s
            if pause_s is None:
                pause_s = min(_MAX_UNSTATED_WAIT_S, 2.0**self._pauses)
            self._pauses += 1
            self._paused_until = max(self._paused_until, now + pause_s)
        if wait_s is None:
            wait_s = min(_MAX_UNSTATED_WAIT_S, _FIRST_BACKOFF_S * 2.0 ** (refusals - 1))
        # A little longer, so that the calls don't all come at the same time.
        return wait_s * self._clock.uniform(1.0, 1.05)

    def _record_temporary_fault(
        self, fault: TemporaryFault, attempt_number: int, failed_attempts: int
    ) -> float:
        """Record that an attempt of a call failed, `failed_attempts` by now; return the
        seconds until the next attempt.

        Raises JudgementFailed after the last attempt, and JudgeError if that was the
        last of too many calls.
        """
        self._record_failure(attempt_number)
        if failed_attempts < MAX_ATTEMPTS:
            backoff_s = min(
                _MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** (failed_attempts - 1)
            )
            requested_s = min(_MAX_BACKOFF_S, fault.retry_after_s or 0.0)
            return max(backoff_s * self._clock.uniform(0.5, 1.0), requested_s)
        self._lost_calls_in_a_row += 1
        if self._lost_calls_in_a_row >= MAX_LOST_CALLS:
            error = JudgeError(
                f"{self._lost_calls_in_a_row} judge calls in a row failed: {fault.reason}",
                where="judge",
                hint="Finished samples are saved. Check the judge's address and state, then run again with --resume.",
            )
            self._stop(error)
        raise JudgementFailed(f"no reply after {MAX_ATTEMPTS} attempts: {fault.reason}")

    def _stop(self, error: JudgeError) -> NoReturn:
        """Raise `error` in this call, and in every call that is waiting or comes
        later."""
        if self._stop_error is None:
            self._stop_error = error
        self._admit_waiting()
        raise error

    def _raise_if_stopped(self) -> None:
        if self._stop_error is not None:
            # A copy each time: one error raised in many tasks would collect all their
            # tracebacks.
            raise copy.copy(self._stop_error)
