"""The limit on what judging may cost."""

from __future__ import annotations

import asyncio

from ragstone.errors import JudgeError
from ragstone.formatting import dollars


class Budget:
    """Holds spending, and what calls in flight may still cost, under `max_cost_usd` (None: no limit).

    A call reserves its highest likely cost before it is sent, so that many calls in flight can't overshoot together.
    Near the limit fewer calls are in flight: one that does not fit now waits for those that are.
    """

    def __init__(self, max_cost_usd: float | None) -> None:
        self._max = max_cost_usd
        self._spent = 0.0
        self._reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Event()

    async def reserve(self, cost_usd: float) -> float:
        """Set `cost_usd` aside and return it, once it fits.

        Raises JudgeError if it doesn't fit though nothing is in flight: then it never will.
        """
        while self._max is not None and self._spent + self._reserved + cost_usd > self._max:
            if not self._in_flight:
                raise JudgeError(
                    f"the budget of {dollars(self._max)} is used up: {dollars(self._spent, 4)} spent, and the next "
                    f"call may cost {dollars(cost_usd, 4)}.",
                    where="judge.max_cost_usd",
                    hint="Finished samples are saved. Raise the budget and continue with --resume.",
                )
            self._settled.clear()
            await self._settled.wait()
        self._reserved += cost_usd
        self._in_flight += 1
        return cost_usd

    def settle(self, reserved_usd: float, actual_usd: float) -> None:
        """Give back what was reserved and book what the call did cost."""
        self._in_flight -= 1
        self._reserved = max(0.0, self._reserved - reserved_usd) if self._in_flight else 0.0
        self._spent += actual_usd
        self._settled.set()
