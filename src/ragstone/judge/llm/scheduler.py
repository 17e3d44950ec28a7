"""One scheduler for all calls to a judge: concurrency, retries, and when to stop."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ragstone.errors import JudgeError
from ragstone.judge.llm.allowance import PATIENCE_S, Allowance, Sent
from ragstone.judge.llm.provider import Broken, Busy, Fault, RateLimits, Rejected
from ragstone.judge.protocol import DRAIN_S, JudgementFailed

MAX_ATTEMPTS = 5
"""Attempts per call."""
BREAKER_FAILURES = 20
"""Failures in a row after which the judge counts as down."""

_T = TypeVar("_T")
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_LONGEST_WAIT_S = 300.0
_CUT_EVERY_S = 1.0
_GROWTH = 0.1
_STREAK = 3
_BREAKER_SPAN_S = 5.0
_GENTLE_CALLS = 96
_SOON_S = 0.001


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, sleep and randomness, passed in so that tests can control them."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(slots=True)
class SchedulerStats:
    """Counts of requests: `attempts` were sent, `busy` of them pushed back."""

    attempts: int = 0
    busy: int = 0


class Scheduler:
    """Runs attempts until one succeeds, within all limits.

    Concurrency starts at half of `concurrency` and grows with success, up to `concurrency`; if `gentle`, it starts at
    four, and grows slowly for 96 calls, unless the provider reports its limits. A call that is over a limit (429) is
    sent again when the `Allowance` permits, which is no attempt; after 200 s in which nothing is taken, no call is.

    When an overloaded provider pushes back (503, 529), concurrency halves, and then grows by one per ten successes. It
    halves at most once a second, but again at once when three calls in a row are refused. A refused call waits as long
    as the provider asked; if the provider asked three times without a success in between, or reports that nothing is
    left of its limits, all calls wait. Broken attempts wait 0.5 s, doubling up to 30 s, with jitter; three in a row
    also halve concurrency, for a server that only gets slower under load.

    After BREAKER_FAILURES failures without a success in between, all calls wait until five seconds have passed since
    the first of them; the next failure then opens the circuit for good. Short outages are survived, dead judges are
    not.
    """

    def __init__(self, *, concurrency: int, timeout_s: float, gentle: bool = False, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._most = concurrency
        self._gentle = _GENTLE_CALLS if gentle else 0
        self._limit = max(1.0, min(concurrency / 2, 4.0 if gentle else concurrency))
        self._allowance = Allowance(self._clock.now)
        self._timeout_s = timeout_s
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pushed_back = False
        self._last_cut = float("-inf")
        self._cut_at = 0
        self._paused_until = float("-inf")
        self._busy_streak = 0
        self._failures = 0
        self._first_failure = 0.0
        self._dead: JudgeError | None = None
        self._left: set[asyncio.Future[Any]] = set()
        self.stats = SchedulerStats()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    async def run(
        self, attempt: Callable[[], Awaitable[_T]], *, tokens: int = 0, late: Callable[[_T], None] | None = None
    ) -> _T:
        """The first success of `attempt`, which is expected to use `tokens`.

        If the caller is cancelled while an attempt is under way, its success is passed to `late`, if it comes within
        DRAIN_S; nothing more is sent. Raises JudgementFailed when this call can't succeed, JudgeError when no call can.
        """
        reason = ""
        number = refusals = 0
        while number < MAX_ATTEMPTS:
            fault: Fault
            sent = await self._acquire(tokens)
            started = self.stats.attempts
            over = False
            try:
                reply = await self._timed(attempt, late)
            except Rejected:
                self._succeeded()
                raise
            except Fault as caught:
                fault = caught
                over = isinstance(fault, Busy) and fault.over_limit
            except JudgeError as error:
                self._die(error)
                raise
            else:
                self._succeeded()
                return reply
            finally:
                if not over:
                    self._allowance.took(sent)
                self._release()
            if isinstance(fault, Busy) and over:
                refusals += 1
                await self._clock.sleep(self._over_limit(fault, sent, refusals))
                continue
            number += 1
            reason = fault.reason
            wait_s = self._failed(fault, number, started)
            if number < MAX_ATTEMPTS:
                await self._clock.sleep(wait_s)
        raise JudgementFailed(f"no reply after {MAX_ATTEMPTS} attempts: {reason}")

    def observe(self, room: RateLimits | None) -> None:
        if room is None:
            return
        self._gentle = 0
        for left, reset_s in ((room.requests, room.requests_reset_s), (room.tokens, room.tokens_reset_s)):
            if left is not None and left <= 0 and reset_s:
                self._pause(min(reset_s, 60.0))

    async def _timed(self, attempt: Callable[[], Awaitable[_T]], late: Callable[[_T], None] | None) -> _T:
        self.stats.attempts += 1
        task = asyncio.ensure_future(attempt())
        try:
            await asyncio.wait((task,), timeout=self._timeout_s)
        except asyncio.CancelledError:
            self._leave(task, late)
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

    def _leave(self, task: asyncio.Future[_T], late: Callable[[_T], None] | None) -> None:
        def ended(_: asyncio.Future[_T]) -> None:
            self._left.discard(task)
            if not task.cancelled() and task.exception() is None and late is not None:
                late(task.result())

        self._left.add(task)
        task.add_done_callback(ended)
        asyncio.get_running_loop().call_later(DRAIN_S, task.cancel)

    async def drain(self) -> None:
        """Wait for the calls that were under way when their callers were cancelled."""
        if self._left:
            await asyncio.wait(self._left)

    async def _acquire(self, tokens: int) -> Sent:
        self._refuse_if_dead()
        if self._waiting or self._in_flight >= int(self._limit):
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
        try:
            return await self._pace(tokens)
        except BaseException:
            self._release()
            raise

    async def _pace(self, tokens: int) -> Sent:
        self._refuse_if_dead()
        while True:
            wait_s = max(self._paused_until - self._clock.now(), self._allowance.wait_s(tokens))
            if wait_s <= _SOON_S:
                break
            await self._clock.sleep(wait_s)
            self._refuse_if_dead()
        return self._allowance.send(tokens)

    def _release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._in_flight < int(self._limit) or self._dead is not None):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def _succeeded(self) -> None:
        self._failures = 0
        self._busy_streak = 0
        self._gentle = max(0, self._gentle - 1)
        if self._limit < self._most and self._in_flight >= int(self._limit) - 1:
            growth = _GROWTH if self._pushed_back else 1.0 / 16 if self._gentle else 1.0
            self._limit = min(float(self._most), self._limit + growth)

    def _failed(self, fault: Fault, number: int, started: int) -> float:
        """Book a failure of the attempt that was the `started`-th; returns the seconds to wait before the next."""
        now = self._clock.now()
        backoff_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** (number - 1)) * self._clock.uniform(0.5, 1.0)
        if isinstance(fault, Busy):
            self.stats.busy += 1
            return self._push_back(fault, now, backoff_s, started)
        self._failures += 1
        if self._failures == 1:
            self._first_failure = now
        if self._failures >= _STREAK and started > self._cut_at:
            self._cut(now)
        if self._failures < BREAKER_FAILURES:
            return backoff_s
        left_s = self._first_failure + _BREAKER_SPAN_S - now
        if left_s > 0:
            self._pause(left_s)
        else:
            error = JudgeError(
                f"the judge failed {self._failures} times in a row: {fault.reason}",
                where="judge",
                hint="Finished samples are saved. Check the judge's address and state, then run again with --resume.",
            )
            self._die(error)
            raise error
        return backoff_s

    def _over_limit(self, fault: Busy, sent: Sent, refusals: int) -> float:
        """Book a call that the provider refused because of a limit; returns the seconds that it waits itself."""
        self.stats.busy += 1
        self.observe(fault.room)
        asked_s = fault.retry_after_s
        self._allowance.refused(sent, asked_s, tokens=fault.by_tokens)
        too_long = asked_s is not None and asked_s > _LONGEST_WAIT_S
        if too_long or self._allowance.stalled_s > PATIENCE_S + (asked_s or 0.0):
            said = f"asks to wait {asked_s:.0f} s" if too_long else f"has refused every call for {PATIENCE_S:.0f} s"
            error = JudgeError(
                f"the provider {said}: {fault.reason}",
                where="judge",
                hint="Finished samples are saved. Run again with --resume when the limit has been reset.",
            )
            self._die(error)
            raise error
        backoff_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** (refusals - 1))
        return (backoff_s if asked_s is None else asked_s) * self._clock.uniform(0.75, 1.0)

    def _push_back(self, fault: Busy, now: float, backoff_s: float, started: int) -> float:
        self._busy_streak += 1
        storm = self._busy_streak >= _STREAK and started > self._cut_at
        if now - self._last_cut >= _CUT_EVERY_S or storm:
            self._cut(now)
        self.observe(fault.room)
        asked_s = fault.retry_after_s
        if asked_s is None:
            return backoff_s
        if asked_s > _LONGEST_WAIT_S:
            error = JudgeError(
                f"the provider asks to wait {asked_s:.0f} s: {fault.reason}",
                where="judge",
                hint="Finished samples are saved. Run again with --resume when the limit has been reset.",
            )
            self._die(error)
            raise error
        if self._busy_streak >= _STREAK:
            self._pause(asked_s)
        return asked_s + self._clock.uniform(0.0, 0.1 + asked_s / 4)

    def _cut(self, now: float) -> None:
        self._pushed_back = True
        self._last_cut = now
        self._cut_at = self.stats.attempts
        self._limit = max(1.0, self._limit / 2)

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)

    def _die(self, error: JudgeError) -> None:
        if self._dead is None:
            self._dead = error
        self._admit()

    def _refuse_if_dead(self) -> None:
        if self._dead is not None:
            # A new error each time: one raised in many tasks would collect all their tracebacks.
            raise copy.copy(self._dead)
