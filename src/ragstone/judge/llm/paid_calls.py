"""The calls to one model: within the budget and the scheduler's limits, and booked."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from ragstone.judge.llm.prices import Budget, Tariff
from ragstone.judge.llm.provider import Rejected, Usage
from ragstone.judge.llm.scheduler import Attempt, Late, Scheduler
from ragstone.judge.protocol import Call, JudgementFailed, Ledger

_T = TypeVar("_T")


class PaidCalls(Struct, frozen=True, eq=False):
    """`tariff` is None for a model without a known price."""

    scheduler: Scheduler
    budget: Budget
    tariff: Tariff | None

    async def run(
        self,
        attempt: Attempt[_T],
        likely: Usage,
        *,
        late: Late[_T] = None,
    ) -> _T:
        """The first success of `attempt`, which books what it used; see
        `Scheduler.run`. `likely` is what it will use at most."""
        likely_usd = self.tariff.cost_usd(likely) if self.tariff else 0.0
        reserved = await self.budget.reserve(likely_usd)
        try:
            return await self.scheduler.run(attempt, late=late)
        except Rejected as fault:
            reason = fault.reason
        finally:
            self.budget.settle(reserved)
        raise JudgementFailed(reason)

    def book(self, usage: Usage, call: Call) -> None:
        """Count an answered call, for the sample and for the budget."""
        cost = self.tariff.cost_usd(usage) if self.tariff else usage.cost_usd
        paid = Ledger(
            calls=1,
            input_tokens=usage.all_input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=cost,
        )
        call.ledger.add(paid)
        self.budget.book(paid)
