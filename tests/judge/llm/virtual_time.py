"""A clock for the scheduler of a judge that jumps to the next sleeper as soon as nothing else can run."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable
from typing import Any

from ragstone.judge.llm.scheduler import Clock


class Time:
    """Virtual time, in seconds from 0."""

    def __init__(self) -> None:
        self.at = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def clock(self) -> Clock:
        return Clock(now=lambda: self.at, sleep=self.sleep, uniform=lambda _low, high: high)

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self.at + seconds, self._count, wake))
        await wake

    async def run(self, work: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(12):
                await asyncio.sleep(0)
            if not task.done() and self._sleepers:
                when, _, wake = heapq.heappop(self._sleepers)
                self.at = max(self.at, when)
                if not wake.done():
                    wake.set_result(None)
        return task.result()
