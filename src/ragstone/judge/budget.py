"""The limit on what judging may cost."""

from __future__ import annotations

from ragstone.errors import JudgeError


class Budget:
    """Holds spending, and what calls in flight may still cost, under `max_cost_usd` (None: no limit).

    A call reserves its highest likely cost before it is sent, so that many calls in flight can't overshoot together.
    """

    def __init__(self, max_cost_usd: float | None) -> None:
        self._max = max_cost_usd
        self._spent = 0.0
        self._reserved = 0.0

    @property
    def spent_usd(self) -> float:
        return self._spent

    def reserve(self, cost_usd: float) -> float:
        """Set `cost_usd` aside and return it. Raises JudgeError if spending could pass the limit."""
        if self._max is not None and self._spent + self._reserved + cost_usd > self._max:
            raise JudgeError(
                f"the budget of ${self._max:.2f} is used up: ${self._spent:.4f} spent and ${self._reserved:.4f} "
                f"set aside for calls in flight; the next call may cost ${cost_usd:.4f}.",
                where="judge.max_cost_usd",
                mend="Finished samples are saved. Raise the budget and run again with --resume.",
            )
        self._reserved += cost_usd
        return cost_usd

    def settle(self, reserved_usd: float, actual_usd: float) -> None:
        """Give back what was reserved and book what the call did cost."""
        self._reserved = max(0.0, self._reserved - reserved_usd)
        self._spent += actual_usd
