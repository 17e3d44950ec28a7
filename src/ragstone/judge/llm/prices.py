"""Token prices: those of the provider's data file, overridden by the user's own."""

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

_MILLION = 1_000_000


class Tariff(Struct, frozen=True):
    """One model's prices in US dollars per million tokens."""

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
        ) / _MILLION


def tariff(
    provider: str, model: str, overrides: Mapping[str, Price] | None = None
) -> Tariff | None:
    """The price of `model`, the user's own first; None if there is none.

    A compatible server's price is never guessed from its model's name.
    """
    price = (overrides or {}).get(model) or listed_price(provider, model)
    if price is None:
        return None
    cache_write = price.cache_write if isinstance(price, ModelPrice) else None
    return Tariff(
        price.input,
        price.output,
        price.input if price.cached_input is None else price.cached_input,
        price.input if cache_write is None else cache_write,
    )


def listed_price(provider: str, model: str) -> ModelPrice | None:
    """The shipped price of `model`, with its window and the shortest prefix that is
    cached; None if unknown."""
    return provider_of(provider).price(model)


def reasoning_tokens(settings: JudgeSettings, provider: str, model: str) -> int:
    """Output tokens that each reply of `model` is assumed to be reasoned about; 0 if
    that is not known."""
    return provider_of(provider).effort(model, settings.parameters).tokens


class CostEstimate(Struct, frozen=True):
    """Chat and embeddings calls, tokens and US dollars (None: price unknown, which is
    not 0).

    An upper estimate for a run without cached judgements; `assumptions` lists what was
    assumed.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    assumptions: str = ""

    def plus(self, estimate: CostEstimate) -> CostEstimate:
        return CostEstimate(
            calls=self.calls + estimate.calls,
            input_tokens=self.input_tokens + estimate.input_tokens,
            output_tokens=self.output_tokens + estimate.output_tokens,
            usd=total_usd(self.usd, estimate.usd),
            assumptions=self.assumptions or estimate.assumptions,
        )

    def sentence(self) -> str:
        if not self.calls:
            return "no paid judge call"
        cost = "price unknown"
        if self.usd is not None:
            cost = f"about {dollars(max(self.usd, 0.01))}"
        return f"at most {counted(self.calls, 'judge call')}, {cost}"


class Budget:
    """Keeps what is `spent`, with the possible cost of calls in flight, under
    `max_cost_usd` (None: no limit).

    A call reserves its highest likely cost before it is sent, so that concurrent calls
    can't overshoot together. Near the limit fewer calls are in flight: a call that does
    not fit waits for those that are. A resumed run sets `spent` to what it spent
    before; if that is not known, nothing fits. `record` is called with what is spent
    after each call.
    """

    def __init__(self, max_cost_usd: float | None) -> None:
        self.spent = Ledger()
        self.record: Callable[[Ledger], None] = lambda _spent: None
        self._max = max_cost_usd
        self._reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Event()

    async def reserve(self, cost_usd: float) -> float:
        """Reserve `cost_usd` once it fits, and return it.

        Raises JudgeError if it doesn't fit although nothing is in flight: then it never
        will.
        """
        while self._max is not None and not self._fits(cost_usd, self._max):
            if not self._in_flight:
                raise JudgeError(
                    f"the budget of {dollars(self._max)} is used up: {dollars(self.spent.cost_usd, 4)} spent, and the "
                    f"next call may cost {dollars(cost_usd, 4)}.",
                    where="judge.max_cost_usd",
                    hint="Finished samples are saved. Raise the budget and continue with --resume.",
                )
            self._settled.clear()
            await self._settled.wait()
        self._reserved += cost_usd
        self._in_flight += 1
        return cost_usd

    def _fits(self, cost_usd: float, limit_usd: float) -> bool:
        spent = self.spent.cost_usd
        return spent is not None and spent + self._reserved + cost_usd <= limit_usd

    def book(self, paid: Ledger) -> None:
        """Count a call that was answered."""
        self.spent.add(paid)
        self.record(self.spent)

    def settle(self, reserved_usd: float) -> None:
        """A call has ended, and needs its reservation no more."""
        self._in_flight -= 1
        self._reserved = (
            max(0.0, self._reserved - reserved_usd) if self._in_flight else 0.0
        )
        self._settled.set()
