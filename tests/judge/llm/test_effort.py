"""A judge is asked to reason as little as its model can, and what that costs is in estimate and budget."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.llm.cost_estimate import estimate_cost
from ragstone.judge.llm.prices import reasoning_tokens
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings

CASES: dict[str, dict[str, Any]] = {
    "openai:gpt-6.1-sol": {"reasoning_effort": "low"},
    "openai:gpt-5.4-mini-2026-03-17": {"reasoning_effort": "none"},
    "openai:gpt-5-mini": {"reasoning_effort": "minimal"},
    "openai:o4-mini": {"reasoning_effort": "low"},
    "openai:gpt-4o-mini": {},
    "anthropic:claude-sonnet-5": {"thinking": {"type": "disabled"}},
    "anthropic:claude-haiku-4-5": {},
    "openai-compatible:Qwen/Qwen3-32B": {"chat_template_kwargs": {"enable_thinking": False}},
    "openai-compatible:qwen3:8b": {"chat_template_kwargs": {"enable_thinking": False}},
    "openai-compatible:openai/gpt-oss-120b": {"reasoning_effort": "low"},
    "openai-compatible:openai/gpt-5.4-mini": {"reasoning_effort": "none"},
    "openai-compatible:llama3.3": {},
}


@pytest.mark.parametrize("name", CASES)
def test_the_lowest_effort_that_the_model_takes_is_sent(world: Any, name: str) -> None:
    world.fake.check = lambda *_: None  # extensions of servers, which OpenAI's types do not know
    judge = world.judge(name)
    world.ask(judge)
    body = world.fake.seen[0].body
    sent = {key: body[key] for key in ("reasoning_effort", "thinking", "chat_template_kwargs") if key in body}
    assert sent == CASES[name]
    assert {key for key, _ in judge.identity.parameters} >= set(sent)
    assert ("effort" in body.get("output_config", {})) is ("thinking" in sent)


def test_an_effort_that_is_refused_is_replaced_by_the_next(world: Any, refuse: Any) -> None:
    message = "Unsupported value: 'reasoning_effort' does not support '{}' with this model."
    world.fake.always = lambda seen: (
        refuse(400, message.format(seen.body["reasoning_effort"]))(seen)
        if seen.body.get("reasoning_effort") in ("none", "minimal")
        else None
    )
    judge = world.judge("openai:gpt-6-luna")
    assert world.ask(judge).statements
    assert world.ask(judge).statements
    efforts = [seen.body["reasoning_effort"] for seen in world.fake.seen]
    assert efforts == ["none", "minimal", "low", "low"]
    assert len(judge.notes) == 2


def test_an_effort_of_the_user_s_own_is_sent_instead(world: Any) -> None:
    judge = world.judge("openai:gpt-6.1-sol", parameters={"reasoning_effort": "high"})
    world.ask(judge)
    assert world.fake.seen[0].body["reasoning_effort"] == "high"
    settings = JudgeSettings(name="openai:gpt-6.1-sol", parameters={"reasoning_effort": "high"})
    assert reasoning_tokens(settings, "openai", "gpt-6.1-sol") == 0


def test_the_estimate_has_the_tokens_of_reasoning_and_says_so() -> None:
    golden = GoldenSet((Sample("q1", "When?", reference="It was opened in 1931."),))
    sol, old = (
        estimate_cost(JudgeSettings(name=f"openai:{name}"), golden, select_metrics())
        for name in ("gpt-6.1-sol", "gpt-6-sol")
    )
    assert sol.output_tokens == old.output_tokens + 300 * (sol.calls - 1)  # all but the embeddings
    assert sol.usd is not None
    assert old.usd is not None
    assert sol.usd > old.usd
    assert "300 reasoning tokens a call" in sol.assumptions
    assert "no reasoning tokens" in old.assumptions
