"""What calls cost: token prices, estimates, and the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct

from ragstone.errors import JudgeError
from ragstone.formatting import counted, dollars
from ragstone.judge.llm.provider import Usage
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import Ledger, total_usd
from ragstone.judge.providers import ModelPrice
from ragstone.settings.settings import JudgeSettings, Price

_TOKENS_PER_PRICE = 1_000_000


class Tariff(Struct, frozen=True):
    """One model's prices for each kind of token, in US dollars per million tokens."""

    input: float
    output: float
    cached_input: float
    cache_write: float

    def cost_usd(self, usage: Usage) -> float:
        """US dollars for `usage`, each kind of token at its own rate."""
        return (
            usage.input_tokens * self.input
            + usage.cached_input_tokens * self.cached_input
            + usage.cache_write_tokens * self.cache_write
            + usage.output_tokens * self.output
        ) / _TOKENS_PER_PRICE


def tariff_of(
    provider: str, model: str, overrides: Mapping[str, Price] | None = None
) -> Tariff | None:
    """The prices of `model`: those in `overrides`, the user's, else the listed ones;
    None if there are none.

    The price of a compatible server is never guessed from the name of its model.
    """
    price = (overrides or {}).get(model) or listed_price(provider, model)
    if price is None:
        return None
    # The user's prices have none for writing to the cache.
    cache_write = price.cache_write if isinstance(price, ModelPrice) else None
    return Tariff(
        input=price.input,
        output=price.output,
        cached_input=price.input if price.cached_input is None else price.cached_input,
        cache_write=price.input if cache_write is None else cache_write,
    )


def listed_price(provider: str, model: str) -> ModelPrice | None:
    """The price of `model` in the provider's data file; None if it is not listed."""
    return provider_of(provider).price(model)


def reasoning_tokens(settings: JudgeSettings, provider: str, model: str) -> int:
    """How many reasoning tokens each reply of `model` is assumed to take; 0 if that is
    not known."""
    return provider_of(provider).effort(model, settings.parameters).reasoning_tokens


class CostEstimate(Struct, frozen=True):
    """An upper estimate of what judging costs if no judgement is cached."""

    calls: int
    """Chat calls and requests for embeddings."""
    input_tokens: int
    output_tokens: int
    usd: float | None
    """None if a price is not known."""
    assumptions: str = ""
    """What was assumed, in words."""

    def plus(self, estimate: CostEstimate) -> CostEstimate:
        """The sum of both, with the assumptions of this one if it has any."""
        return CostEstimate(
            calls=self.calls + estimate.calls,
            input_tokens=self.input_tokens + estimate.input_tokens,
            output_tokens=self.output_tokens + estimate.output_tokens,
            usd=total_usd(self.usd, estimate.usd),
            assumptions=self.assumptions or estimate.assumptions,
        )

    def sentence(self) -> str:
        """The calls and their cost in words, for messages."""
        if not self.calls:
            return "no paid judge call"
        cost = "price unknown"
        if self.usd is not None:
            cost = f"about {dollars(max(self.usd, 0.01))}"
        return f"at most {counted(self.calls, 'judge call')}, {cost}"


class Budget:
    """Keeps the cost of a run under `max_cost_usd` (None: no limit).

    A call reserves its likely cost, an upper estimate, before it is sent, so that
    concurrent calls can't exceed the budget together. One that does not fit waits until
    calls in flight have ended.
    """

    def __init__(self, max_cost_usd: float | None) -> None:
        self.spent = Ledger()
        """What the run has spent. A resumed run sets it to what it had spent before; if
        its cost is not known, no call fits."""
        self.record: Callable[[Ledger], None] = lambda _spent: None
        """Called with `spent` after each call."""
        self._max_cost_usd = max_cost_usd
        self._reserved_usd = 0.0
        self._in_flight = 0
        self._call_ended = asyncio.Event()

    async def reserve(self, cost_usd: float) -> None:
        """Reserve `cost_usd` for a call as soon as it fits.

        Raises JudgeError if it doesn't fit although no call is in flight, because then
        it never will.
        """
        limit_usd = self._max_cost_usd
        while limit_usd is not None and not self._fits(cost_usd, limit_usd):
            if not self._in_flight:
                spent = "an unknown amount was"
                if self.spent.cost_usd is not None:
                    spent = dollars(self.spent.cost_usd, 4)
                raise JudgeError(
                    f"the budget of {dollars(limit_usd)} is used up: {spent} spent, and the next call may cost "
                    f"{dollars(cost_usd, 4)}.",
                    where="judge.max_cost_usd",
                    hint="Finished samples are saved. Raise the budget and continue with --resume.",
                )
            self._call_ended.clear()
            await self._call_ended.wait()
        self._reserved_usd += cost_usd
        self._in_flight += 1

    def _fits(self, cost_usd: float, limit_usd: float) -> bool:
        spent_usd = self.spent.cost_usd
        if spent_usd is None:
            return False
        return spent_usd + self._reserved_usd + cost_usd <= limit_usd

    def book(self, ledger: Ledger) -> None:
        """Add the cost of a call that was answered."""
        self.spent.add(ledger)
        self.record(self.spent)

    def release(self, reserved_usd: float) -> None:
        """Release what was reserved for a call that has ended."""
        self._in_flight -= 1
        self._reserved_usd = max(0.0, self._reserved_usd - reserved_usd)
        if not self._in_flight:
            # Sums of floats may leave a remainder.
            self._reserved_usd = 0.0
        self._call_ended.set()
