"""The scheduler under a clock of its own: concurrency, limits, back-off, and when it stops."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragstone.errors import JudgeError
from ragstone.judge.llm.provider import RateLimited, Rejected, TemporaryFault
from ragstone.judge.llm.scheduler import Clock, Scheduler
from ragstone.judge.protocol import JudgementFailed
from tests.judge.llm.virtual_time import Time


def make(time: Time, **changes: Any) -> Scheduler:
    options: dict[str, Any] = {"concurrency": 8, "timeout_s": 600.0}
    return Scheduler(**(options | changes), clock=time.clock())


class Server:
    """Takes a second a call, and counts how many are with it."""

    def __init__(self, time: Time, most: int | None = None) -> None:
        self._time = time
        self._most = most
        self.now = self.peak = self.calls = 0
        self.starts: list[float] = []

    async def call(self) -> str:
        self.calls += 1
        self.now += 1
        self.starts.append(self._time.at)
        self.peak = max(self.peak, self.now)
        try:
            if self._most is not None and self.now > self._most:
                raise RateLimited("HTTP 429")
            await self._time.sleep(1.0)
        finally:
            self.now -= 1
        return "ok"


def failing(*faults: Exception) -> Callable[[], Awaitable[str]]:
    """Fails with `faults` in turn, then succeeds."""
    left = list(faults)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "ok"

    return attempt


def in_virtual_time(body: Callable[[Time], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        play(body)

    return test


def play(body: Callable[[Time], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        time = Time()
        return await time.run(body(time))

    return asyncio.run(main())


@in_virtual_time
async def test_concurrency_starts_at_four_and_grows_with_success(time: Time) -> None:
    server, scheduler = Server(time), make(time)
    assert scheduler.limit == 4
    assert await asyncio.gather(*(scheduler.run(server.call) for _ in range(60))) == ["ok"] * 60
    assert server.peak == 8
    assert scheduler.limit == 8


@in_virtual_time
async def test_concurrency_halves_when_the_provider_pushes_back_and_settles_near_what_it_takes(time: Time) -> None:
    server, scheduler = Server(time, most=10), make(time, concurrency=64)
    assert await asyncio.gather(*(scheduler.run(server.call) for _ in range(300))) == ["ok"] * 300
    assert 4 <= scheduler.limit <= 14
    assert server.calls < 300 + 120


WAITS = {
    "over its limit": (RateLimited("HTTP 429", 7.0), "ok", 7.35),
    "over its limit for as long as we are patient": (RateLimited("HTTP 429", 600.0), "ok", 630.0),
    "over its limit for longer": (RateLimited("HTTP 429", 600.1), "asks to wait 600 s", 0.0),
    "over its limit, which says nothing": (RateLimited("HTTP 429"), "ok", 0.525),
    "overloaded": (TemporaryFault("HTTP 503", 7.0), "ok", 7.0),
    "overloaded for less than the usual wait": (TemporaryFault("HTTP 503", 0.1), "ok", 0.5),
    "overloaded for an hour": (TemporaryFault("HTTP 503", 3600.0), "ok", 30.0),
    "refusing this call": (Rejected("too long"), "too long", 0.0),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_call_waits_as_long_as_its_provider_asks_for(case: str) -> None:
    fault, outcome, seconds = WAITS[case]

    async def body(time: Time) -> None:
        (result,) = await asyncio.gather(make(time).run(failing(fault)), return_exceptions=True)
        assert outcome in str(result)
        assert time.at == pytest.approx(seconds)

    play(body)


@pytest.mark.parametrize(("at_once", "limit"), [(1, 4), (2, 4), (3, 5), (4, 5)])
def test_concurrency_grows_when_all_but_one_of_its_places_are_used(at_once: int, limit: int) -> None:
    async def body(time: Time) -> None:
        scheduler, server = make(time), Server(time)
        await asyncio.gather(*(scheduler.run(server.call) for _ in range(at_once)))
        assert scheduler.limit == limit

    play(body)


@pytest.mark.parametrize(("refused", "limit"), [(2, 8), (3, 4), (8, 4)])
def test_concurrency_halves_once_when_three_calls_in_a_row_are_refused(refused: int, limit: int) -> None:
    async def body(time: Time) -> None:
        scheduler, server = make(time), Server(time)
        await asyncio.gather(*(scheduler.run(server.call) for _ in range(60)))
        waiting = [asyncio.ensure_future(scheduler.run(failing(RateLimited("429", 10.0)))) for _ in range(refused)]
        for _ in range(8):
            await asyncio.sleep(0)
        assert scheduler.limit == limit
        assert await asyncio.gather(*waiting) == ["ok"] * refused

    play(body)


@in_virtual_time
async def test_one_refused_call_does_not_hold_up_the_others_and_three_in_a_row_do(time: Time) -> None:
    scheduler, server = make(time), Server(time)
    refused = asyncio.ensure_future(scheduler.run(failing(RateLimited("429", 10.0))))
    await asyncio.sleep(0)
    await scheduler.run(server.call)
    assert server.starts == [0.0]
    await refused
    many = [asyncio.ensure_future(scheduler.run(failing(RateLimited("429", 10.0)))) for _ in range(3)]
    for _ in range(4):
        await asyncio.sleep(0)
    start = time.at
    await scheduler.run(server.call)
    assert server.starts[-1] >= start + 10.0
    await asyncio.gather(*many)


def test_back_off_doubles_with_jitter_up_to_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.judge.llm.scheduler.MAX_ATTEMPTS", 9)

    async def body(time: Time) -> None:
        moments: list[float] = []

        async def attempt() -> str:
            moments.append(time.at)
            raise TemporaryFault("HTTP 500")

        with pytest.raises(JudgementFailed, match="no reply after 9 attempts: HTTP 500"):
            await make(time).run(attempt)
        gaps = [b - a for a, b in itertools.pairwise(moments)]
        assert gaps == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        assert time.at == moments[-1], "nothing is waited for after the last attempt"

    play(body)


@in_virtual_time
async def test_a_dead_judge_stops_the_run_for_everybody(time: Time) -> None:
    calls = 0

    async def attempt() -> str:
        nonlocal calls
        calls += 1
        raise TemporaryFault("connection refused")

    scheduler = make(time)
    outcomes = await asyncio.gather(*(scheduler.run(attempt) for _ in range(200)), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, JudgementFailed)]
    assert len(failed) == 4
    assert all(isinstance(outcome, JudgeError) for outcome in outcomes if outcome not in failed)
    assert "5 judge calls in a row failed: connection refused" in str(outcomes[-1])
    assert "--resume" in str(outcomes[-1])
    assert time.at < 60
    assert calls < 200
    with pytest.raises(JudgeError):
        await scheduler.run(attempt)


@in_virtual_time
async def test_a_short_outage_costs_no_call(time: Time) -> None:
    async def attempt() -> str:
        if time.at < 4.0:
            raise TemporaryFault("HTTP 500")
        return "ok"

    scheduler = make(time, concurrency=64)
    assert await asyncio.gather(*(scheduler.run(attempt) for _ in range(64))) == ["ok"] * 64


@in_virtual_time
async def test_a_fatal_error_wakes_all_that_wait(time: Time) -> None:
    async def attempt() -> str:
        raise JudgeError("key refused", hint="Set it.")

    scheduler = make(time, concurrency=1)
    outcomes = await asyncio.gather(*(scheduler.run(attempt) for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["key refused\n  Set it."] * 3


def test_a_call_that_hangs_is_timed_out_and_tried_again() -> None:
    hung = 0

    async def attempt() -> str:
        nonlocal hung
        hung += 1
        if hung == 1:
            await asyncio.sleep(60)
        return "ok"

    async def main() -> str:
        async def no_sleep(_seconds: float) -> None:
            await asyncio.sleep(0)

        return await Scheduler(concurrency=2, timeout_s=0.05, clock=Clock(sleep=no_sleep)).run(attempt)

    assert asyncio.run(main()) == "ok"
    assert hung == 2


@in_virtual_time
async def test_cancelled_calls_give_their_places_back(time: Time) -> None:
    scheduler, server = make(time, concurrency=2), Server(time)
    tasks = [asyncio.ensure_future(scheduler.run(server.call)) for _ in range(10)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await asyncio.gather(*(scheduler.run(server.call) for _ in range(5))) == ["ok"] * 5


@in_virtual_time
async def test_a_call_that_is_refused_now_and_then_costs_the_others_nothing(time: Time) -> None:
    """One 429 of twenty is no limit that is reached."""
    chance = random.Random(5)
    server, scheduler = Server(time), make(time, concurrency=16)

    async def attempt() -> str:
        if chance.random() < 0.05:
            raise RateLimited("HTTP 429", 1.0)
        return await server.call()

    assert await asyncio.gather(*(scheduler.run(attempt) for _ in range(400))) == ["ok"] * 400
    assert time.at < 1.5 * 400 / 16


@pytest.mark.parametrize(("asked_s", "patience_s"), [(None, 600.0), (0.5, 600.0), (20.0, 60.0)])
def test_a_limit_that_stays_reached_is_asked_seldom_and_ends_the_run(asked_s: float | None, patience_s: float) -> None:
    async def body(time: Time) -> None:
        calls = 0

        async def attempt() -> str:
            nonlocal calls
            calls += 1
            raise RateLimited("HTTP 429", asked_s)

        scheduler = make(time, patience_s=patience_s)
        outcomes = await asyncio.gather(*(scheduler.run(attempt) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(outcome, JudgeError) for outcome in outcomes)
        assert f"has refused every call for {patience_s:.0f} s: HTTP 429" in str(outcomes[0])
        assert "judge.patience_s" in str(outcomes[0])
        assert patience_s <= time.at <= patience_s + 40
        assert calls <= 10 + 3 * patience_s / min(asked_s or 5.0, 5.0)

    play(body)
