"""A provider's rate limit costs time, and no call: on servers of many kinds, on a virtual clock, at every latency.

A server says how long to wait (`says`), or only refuses. Limits are 10, 30 and 60 requests a minute in fixed windows,
from the first call or from the full minute, in sliding windows, and from buckets that hold a minute's requests or five;
three in six seconds; 20,000 tokens a minute; and some change midway.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pytest

from ragstone.errors import JudgeError
from ragstone.judge.llm.provider import RateLimited
from ragstone.judge.llm.scheduler import Scheduler
from ragstone.judge.protocol import JudgementFailed
from tests.judge.llm.virtual_time import Time

pytestmark = pytest.mark.heavy

CALLS = 300


class Server(Protocol):
    def take(self, at: float, units: float) -> float | None:
        """None, or the seconds until a call of `units` would be taken."""
        ...


class Fixed:
    """`limit` units in each window, the first of which began `phase` seconds before the first call."""

    def __init__(self, limit: float, window: float, phase: float = 0.0) -> None:
        self._limit, self._window, self._phase = limit, window, phase
        self._number, self._used = -1, 0.0

    def take(self, at: float, units: float) -> float | None:
        number = int((at + self._phase) // self._window)
        if number != self._number:
            self._number, self._used = number, 0.0
        if self._used + units > self._limit:
            return (number + 1) * self._window - self._phase - at
        self._used += units
        return None


class Sliding:
    """`limit` units in any `window` seconds."""

    def __init__(self, limit: float, window: float) -> None:
        self._limit, self._window = limit, window
        self._taken: list[tuple[float, float]] = []

    def take(self, at: float, units: float) -> float | None:
        self._taken = [(when, size) for when, size in self._taken if when > at - self._window]
        if sum(size for _, size in self._taken) + units > self._limit:
            return self._taken[0][0] + self._window - at
        self._taken.append((at, units))
        return None


class Bucket:
    """`limit` units a minute, and at most `burst` at once."""

    def __init__(self, limit: float, burst: float) -> None:
        self._rate, self._burst, self._level, self._at = limit / 60.0, burst, burst, 0.0

    def take(self, at: float, units: float) -> float | None:
        self._level = min(self._burst, self._level + (at - self._at) * self._rate)
        self._at = at
        if self._level < units:
            return (units - self._level) / self._rate
        self._level -= units
        return None


class Changing:
    """One server until `at`, then another."""

    def __init__(self, first: Server, then: Server, at: float) -> None:
        self._first, self._then, self._at = first, then, at

    def take(self, at: float, units: float) -> float | None:
        return (self._first if at < self._at else self._then).take(at, units)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    make: Callable[[], Server]
    says: bool
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds, those of a sender that knows the limit, calls that were lost, and requests that were refused."""

    took_s: float
    ideal_s: float
    lost: int
    refused: int

    @property
    def ratio(self) -> float:
        return self.took_s / self.ideal_s


def cases() -> Iterator[Case]:
    def of(name: str, make: Callable[[], Server], *, tokens: bool = False) -> Iterator[Case]:
        yield from (Case(name, make, says, tokens) for says in (True, False))

    for limit in (10, 30, 60):
        yield from of(f"{limit} a minute, fixed window", partial(Fixed, limit, 60))
        yield from of(f"{limit} a minute, full minutes", partial(Fixed, limit, 60, 37))
        yield from of(f"{limit} a minute, sliding", partial(Sliding, limit, 60))
        yield from of(f"{limit} a minute, bucket", partial(Bucket, limit, limit))
        yield from of(f"{limit} a minute, bucket of 5", partial(Bucket, limit, 5))
    yield Case("3 per 6 s, fixed window", lambda: Fixed(3, 6), says=True)
    yield Case("3 per 6 s, sliding", lambda: Sliding(3, 6), says=True)
    yield from of("20,000 tokens a minute, fixed window", lambda: Fixed(20_000, 60), tokens=True)
    yield from of("20,000 tokens a minute, sliding", lambda: Sliding(20_000, 60), tokens=True)
    yield from of("20,000 tokens a minute, bucket", lambda: Bucket(20_000, 20_000), tokens=True)
    yield from of("30, then 15 a minute", lambda: Changing(Fixed(30, 60), Fixed(15, 60), 300))
    yield from of("15, then 30 a minute", lambda: Changing(Fixed(15, 60), Fixed(30, 60), 600))
    yield from of("60, then 10 a minute", lambda: Changing(Sliding(60, 60), Sliding(10, 60), 150))
    yield from of("10, then 60 a minute", lambda: Changing(Sliding(10, 60), Sliding(60, 60), 600))


def measure(case: Case, latency_s: float) -> Outcome:
    """300 calls, 64 at once, through the scheduler."""
    chance = random.Random(33)
    sizes = [chance.randint(300, 1_500) for _ in range(CALLS)]
    units = [float(size) if case.tokens else 1.0 for size in sizes]
    time, server = Time(), case.make()
    lost = refused = 0
    scheduler = Scheduler(concurrency=64, timeout_s=600.0, clock=time.clock())

    async def call(number: int) -> None:
        nonlocal lost

        async def attempt() -> None:
            nonlocal refused
            await time.sleep(0.05)
            wait_s = server.take(time.at, units[number])
            if wait_s is not None:
                refused += 1
                raise RateLimited("HTTP 429", wait_s if case.says else None)
            await time.sleep(latency_s)

        try:
            await scheduler.run(attempt)
        except (JudgeError, JudgementFailed):
            lost += 1

    async def all_calls() -> None:
        await asyncio.gather(*map(call, range(CALLS)))

    asyncio.run(time.run(all_calls()))
    return Outcome(time.at, _ideal_s(case.make(), units) + latency_s, lost, refused)


def _ideal_s(server: Server, units: list[float]) -> float:
    at = 0.0
    for one in units:
        while (wait_s := server.take(at, one)) is not None:
            at += max(wait_s, 1e-6)
    return at


@pytest.mark.parametrize(("latency_s", "most"), [(1.0, 1.3), (5.0, 2.0)], ids=["usual", "slow"])
@pytest.mark.parametrize("case", [*cases()], ids=lambda case: f"{case.name}{'' if case.says else ', silent'}")
def test_no_call_is_lost_and_little_time(case: Case, latency_s: float, most: float) -> None:
    result = measure(case, latency_s)
    assert result.lost == 0
    assert result.ratio < most
    if latency_s == 1.0:
        assert result.refused <= 3 * CALLS
