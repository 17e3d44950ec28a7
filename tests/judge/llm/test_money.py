"""Prices, the budget, and the estimate before a run."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.llm.estimate import estimate_cost
from ragstone.judge.llm.prices import Budget, listed_price, tariff
from ragstone.judge.llm.provider import Usage
from ragstone.judge.protocol import Judge, Ledger
from ragstone.judge.providers import price_date
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings, Price

GOLDEN = GoldenSet(tuple(Sample(f"q{n}", "When was it opened?", reference="It was opened in 1931.") for n in range(10)))


def test_the_price_file_is_dated() -> None:
    assert date.fromisoformat(price_date()) >= date(2026, 11, 1)


def test_each_kind_of_token_has_its_own_price() -> None:
    price = tariff("anthropic", "claude-haiku-4-5")
    assert price is not None
    usage = Usage(input_tokens=10, cached_input_tokens=100, cache_write_tokens=20, output_tokens=5)
    assert price.cost_usd(usage) == pytest.approx((10 * 1.0 + 100 * 0.1 + 20 * 1.25 + 5 * 5.0) / 1e6)


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "gpt-4o-mini-2024-07-18"), ("anthropic", "claude-haiku-4-5-20251001")]
)
def test_a_dated_name_has_the_price_of_its_model(provider: str, model: str) -> None:
    assert tariff(provider, model) is not None
    assert listed_price(provider, model) is not None


@pytest.mark.parametrize("model", ["gpt-4o-mini-finetuned", "gpt-99", ""])
def test_a_price_that_nobody_states_is_none(model: str) -> None:
    assert tariff("openai", model) is None
    assert tariff("openai-compatible", "gpt-4o-mini") is None


def test_the_user_s_own_price_comes_first() -> None:
    own = tariff("openai-compatible", "llama", {"llama": Price(input=1.0, output=2.0)})
    assert own is not None
    assert own.cost_usd(Usage(input_tokens=1_000_000, cached_input_tokens=1_000_000)) == 2.0


def test_a_call_that_does_not_fit_waits_for_those_in_flight() -> None:
    async def spend() -> None:
        budget = Budget(1.0)
        assert [await budget.reserve(0.4), await budget.reserve(0.4)] == [0.4, 0.4]
        third = asyncio.create_task(budget.reserve(0.4))
        await asyncio.sleep(0)
        assert not third.done()
        budget.book(Ledger(calls=1, cost_usd=0.1))
        budget.settle(0.4)
        assert await third == 0.4

    asyncio.run(spend())


def test_a_call_that_does_not_fit_while_nothing_is_in_flight_ends_the_run() -> None:
    async def spend() -> None:
        budget = Budget(1.0)
        reserved = await budget.reserve(0.9)
        waiting = [asyncio.create_task(budget.reserve(0.4)) for _ in range(3)]
        await asyncio.sleep(0)
        budget.book(Ledger(calls=1, cost_usd=0.7))
        budget.settle(reserved)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, JudgeError) for outcome in outcomes)
        assert "budget of $1.00 is used up: $0.7000 spent" in str(outcomes[0])
        assert "--resume" in str(outcomes[0])

    asyncio.run(spend())


def test_a_budget_that_the_run_fits_does_not_stop_it(world: Any) -> None:
    """Each call sets aside several times of what it comes to cost; 60 at once would not fit, one after another do."""
    from ragstone.judge.protocol import Call

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


def test_the_estimate_counts_five_calls_a_sample_and_shared_embeddings() -> None:
    estimate = estimate_cost(JudgeSettings(name="openai:gpt-4o-mini"), GOLDEN, select_metrics())
    assert estimate.calls == 51
    assert estimate.usd is not None
    assert 0.0 < estimate.usd < 0.1
    thrice = estimate_cost(JudgeSettings(name="openai:gpt-4o-mini"), GOLDEN, select_metrics(), repeats=3)
    assert thrice.usd == pytest.approx(3 * estimate.usd)
    answers = estimate_cost(JudgeSettings(name="openai:gpt-4o-mini"), GOLDEN, select_metrics(), repeats=3, answers=2)
    assert answers.usd == pytest.approx(6 * estimate.usd)


def test_lengths_that_are_known_replace_what_is_assumed() -> None:
    settings = JudgeSettings(name="openai:gpt-4o-mini")
    lengths = {sample.id: (4_000, 40_000) for sample in GOLDEN.samples}
    assumed = estimate_cost(settings, GOLDEN, select_metrics())
    known = estimate_cost(settings, GOLDEN, select_metrics(), lengths=lengths)
    assert known.input_tokens > 2 * assumed.input_tokens
    assert "answers as long as the references" in assumed.assumptions
    assert "as long as" not in known.assumptions


def test_the_estimate_of_an_unknown_price_is_none_and_of_the_offline_judge_nothing() -> None:
    unknown = estimate_cost(JudgeSettings(name="openai-compatible:llama"), GOLDEN, select_metrics())
    assert unknown.usd is None
    assert unknown.calls == 50
    free = estimate_cost(JudgeSettings(), GOLDEN, select_metrics())
    assert (free.calls, free.usd) == (0, 0.0)


def test_the_estimate_is_close_to_what_such_a_run_does_cost(world: Any) -> None:
    """The fake's replies are short, so only what is sent can be compared."""
    from ragstone.judge.collect import collect_judgements
    from ragstone.judge.protocol import Call
    from ragstone.system.response import Context, Response

    sample = GOLDEN.samples[0]
    judge = world.judge()
    needs = frozenset().union(*(metric.needs(sample) for metric in select_metrics()))
    response = Response(sample.id, "It was opened in 1931.", tuple(Context("c" * 800) for _ in range(5)))
    world.run(collect_judgements(judge, sample, response, needs, Call(sample.id)))
    sent = sum(len(str(seen.body["messages"])) // 4 for seen in world.fake.chats)
    estimate = estimate_cost(JudgeSettings(name="openai:gpt-4o-mini"), GoldenSet((sample,)), select_metrics())
    assert 0.7 * estimate.input_tokens < sent < 1.3 * estimate.input_tokens


def test_a_budget_without_a_price_is_refused_before_anything_is_sent(world: Any) -> None:
    with pytest.raises(ConfigError, match="can't enforce") as caught:
        world.judge("openai-compatible:llama", max_cost_usd=1.0)
    assert '[judge.prices."llama"]' in str(caught.value)
    world.judge("openai-compatible:llama", max_cost_usd=1.0, prices={"llama": Price(input=1, output=1)})


def test_the_budget_stops_the_run_and_the_spending(world: Any) -> None:
    from ragstone.judge.protocol import Call

    judge = world.judge(max_cost_usd=0.01)
    ledger = Ledger()

    async def many() -> list[object]:
        calls = [judge.statements("When?", f"In {year}.", call=Call(str(year), ledger=ledger)) for year in range(300)]
        return await asyncio.gather(*calls, return_exceptions=True)

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
