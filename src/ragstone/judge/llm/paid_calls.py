"""Calls to one model, within the budget and the scheduler's limits."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from ragstone.judge.llm.prices import Budget, Tariff
from ragstone.judge.llm.provider import Rejected, Usage
from ragstone.judge.llm.scheduler import Attempt, LateCallback, Scheduler
from ragstone.judge.protocol import Call, JudgementFailed, Ledger

_T = TypeVar("_T")


class PaidCalls(Struct, frozen=True, eq=False):
    """Makes calls to one model, each with its cost reserved in the budget."""

    scheduler: Scheduler
    budget: Budget
    tariff: Tariff | None
    """The model's prices; None if they are not known."""

    async def run(
        self,
        attempt: Attempt[_T],
        max_usage: Usage,
        *,
        on_late: LateCallback[_T] = None,
    ) -> _T:
        """Call `attempt` until it succeeds, as `Scheduler.run` does, and return its
        result.

        `max_usage` is an upper estimate of what a success uses, which `attempt` records
        with `book`. Raises JudgementFailed or JudgeError.
        """
        # Without prices, nothing is reserved; a cost that the gateway reports is booked.
        max_usd = self.tariff.cost_usd(max_usage) if self.tariff else 0.0
        await self.budget.reserve(max_usd)
        try:
            return await self.scheduler.run(attempt, on_late=on_late)
        except Rejected as fault:
            reason = fault.reason
        finally:
            self.budget.release(max_usd)
        # Not in the except block, so that the failure is not chained to the fault.
        raise JudgementFailed(reason)

    def book(self, usage: Usage, call: Call) -> None:
        """Add an answered call to the sample's ledger and to the budget."""
        cost_usd = self.tariff.cost_usd(usage) if self.tariff else usage.cost_usd
        ledger = Ledger(
            calls=1,
            input_tokens=usage.all_input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=cost_usd,
        )
        call.ledger.add(ledger)
        self.budget.book(ledger)
