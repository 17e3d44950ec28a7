"""Prices, the budget, and the estimate before a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.llm.prices import Budget, tariff_of
from ragstone.judge.llm.provider import Usage
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.settings.settings import JudgeSettings, Price

GOLDEN = GoldenSet(tuple(Sample(f"q{n}", "When was it opened?", reference="It was opened in 1931.") for n in range(10)))
USAGE = Usage(input_tokens=10, cached_input_tokens=100, cache_write_tokens=20, output_tokens=5)
OWN = {"llama": Price(input=1.0, output=2.0), "gpt-4o-mini": Price(input=1.0, cached_input=0.0, output=2.0)}


@pytest.mark.parametrize(
    ("provider", "model", "overrides", "cost"),
    [
        ("anthropic", "claude-haiku-4-5", None, 10 * 1.0 + 100 * 0.1 + 20 * 1.25 + 5 * 5.0),
        ("anthropic", "claude-haiku-4-5-20251001", {}, 10 * 1.0 + 100 * 0.1 + 20 * 1.25 + 5 * 5.0),
        ("openai", "gpt-4o-mini-2024-07-18", OWN, 30 * 0.15 + 100 * 0.075 + 5 * 0.6),
        ("openai", "gpt-4o-mini", OWN, 30 * 1.0 + 5 * 2.0),
        ("openai-compatible", "llama", OWN, 130 * 1.0 + 5 * 2.0),
        ("openai-compatible", "gpt-4o-mini", None, None),
        ("openai", "gpt-4o-mini-finetuned", None, None),
        ("openai", "", None, None),
    ],
)
def test_each_kind_of_token_has_the_price_of_its_model_or_the_user_s_own(
    provider: str, model: str, overrides: dict[str, Price] | None, cost: float | None
) -> None:
    tariff = tariff_of(provider, model, overrides)
    assert (tariff and tariff.cost_usd(USAGE)) == (cost and pytest.approx(cost / 1e6))


@pytest.mark.parametrize(("most", "fits"), [(0.8, True), (0.79, False), (None, True)])
def test_what_is_spent_reserved_and_needed_may_come_to_the_budget_and_no_further(
    most: float | None, fits: bool
) -> None:
    async def spend() -> None:
        budget = Budget(most)
        budget.book(Ledger(calls=1, cost_usd=0.25))
        await budget.reserve(0.25)
        next_call = asyncio.create_task(budget.reserve(0.3))
        await asyncio.sleep(0)
        assert next_call.done() is fits
        next_call.cancel()

    asyncio.run(spend())


def test_nothing_fits_if_what_was_spent_before_is_not_known() -> None:
    budget = Budget(1.0)
    budget.spent = Ledger(calls=1, cost_usd=None)
    with pytest.raises(JudgeError, match="an unknown amount was spent"):
        asyncio.run(budget.reserve(0.0))


def test_a_call_that_does_not_fit_waits_for_those_in_flight() -> None:
    async def spend() -> None:
        budget = Budget(1.0)
        await budget.reserve(0.4)
        await budget.reserve(0.4)
        third = asyncio.create_task(budget.reserve(0.4))
        await asyncio.sleep(0)
        assert not third.done()
        budget.book(Ledger(calls=1, cost_usd=0.1))
        budget.release(0.4)
        await third

    asyncio.run(spend())


def test_a_call_that_does_not_fit_while_nothing_is_in_flight_ends_the_run() -> None:
    async def spend() -> None:
        budget = Budget(1.0)
        await budget.reserve(0.9)
        waiting = [asyncio.create_task(budget.reserve(0.4)) for _ in range(3)]
        await asyncio.sleep(0)
        budget.book(Ledger(calls=1, cost_usd=0.7))
        budget.release(0.9)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, JudgeError) for outcome in outcomes)
        assert "budget of $1.00 is used up: $0.7000 spent" in str(outcomes[0])
        assert "--resume" in str(outcomes[0])

    asyncio.run(spend())


def test_a_budget_that_the_run_fits_does_not_stop_it(world: Any) -> None:
    """Each call sets aside several times of what it comes to cost; 60 at once would not fit, one after another do."""
    world.fake.delay_s = 0.005
    ledger = Ledger()

    async def many(judge: Any) -> None:
        calls = [judge.statements("When?", f"In {year}.", call=Call(str(year), ledger=ledger)) for year in range(60)]
        await asyncio.gather(*calls)

    free = world.judge()
    world.run(many(free))
    real = ledger.cost_usd
    assert real is not None
    world.fake.delay_s = 0.0
    ledger.cost_usd = 0.0
    world.run(many(world.judge(max_cost_usd=1.1 * real)))
    assert ledger.cost_usd == pytest.approx(real)


def test_a_budget_without_a_price_is_refused_before_anything_is_sent(world: Any) -> None:
    with pytest.raises(ConfigError, match="can't keep to a budget") as caught:
        world.judge("openai-compatible:llama", max_cost_usd=1.0)
    assert '[judge.prices."llama"]' in str(caught.value)
    world.judge("openai-compatible:llama", max_cost_usd=1.0, prices={"llama": Price(input=1, output=1)})


def test_the_budget_stops_the_run_and_the_spending(world: Any) -> None:
    judge = world.judge(max_cost_usd=0.01)
    ledger = Ledger()

    async def many() -> Sequence[object]:
        calls = [judge.statements("When?", f"In {year}.", call=Call(str(year), ledger=ledger)) for year in range(300)]
        outcomes: Sequence[object] = await asyncio.gather(*calls, return_exceptions=True)
        return outcomes

    outcomes = world.run(many())
    assert any(isinstance(outcome, JudgeError) for outcome in outcomes)
    assert not any(isinstance(outcome, JudgeError) for outcome in outcomes[:3])
    assert ledger.cost_usd is not None
    assert ledger.cost_usd <= 0.01


def test_a_budget_needs_the_price_of_the_embeddings_too() -> None:
    def built(**more: Any) -> Judge:
        settings = JudgeSettings(name="openai:gpt-5.4-mini", api_key=SecretStr("sk-key-0123456789"), **more)
        return build_judge(settings, golden_set=GOLDEN, cache=None, environ={})

    built(embeddings="my-embeddings")
    built(max_cost_usd=1.0)
    with pytest.raises(ConfigError, match="the price of 'openai:my-embeddings' is not known"):
        built(embeddings="my-embeddings", max_cost_usd=1.0)
    built(embeddings="my-embeddings", max_cost_usd=1.0, prices={"my-embeddings": Price(input=0.0, output=0.0)})
