"""The limit on the cost of judging."""

from __future__ import annotations

import asyncio

from ragstone.errors import JudgeError
from ragstone.formatting import dollars


class Budget:
    """Keeps spending, including the possible cost of calls in flight, under `max_cost_usd` (None: no limit).

    A call reserves its highest likely cost before it is sent, so that concurrent calls can't overshoot together. Near
    the limit fewer calls are in flight: a call that does not fit waits for those that are.
    """

    def __init__(self, max_cost_usd: float | None) -> None:
        self._max = max_cost_usd
        self._spent = 0.0
        self._reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Event()

    async def reserve(self, cost_usd: float) -> float:
        """Reserve `cost_usd` once it fits, and return it.

        Raises JudgeError if it doesn't fit although nothing is in flight: then it never will.
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
        """Release the reservation and book the actual cost."""
        self._in_flight -= 1
        self._reserved = max(0.0, self._reserved - reserved_usd) if self._in_flight else 0.0
        self._spent += actual_usd
        self._settled.set()
