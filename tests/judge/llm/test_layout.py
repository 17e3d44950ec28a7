"""What of a request is the same for all samples, and how providers are told so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.prompts import NAMES, layout_of, load_prompt
from ragstone.judge.protocol import Call
from ragstone.settings.settings import Price
from ragstone.system.response import Context

HEADLINE = ("statements", "support", "context_use", "reverse_questions")
MARK = {"mode": "explicit"}


def judged(world: Any, judge: Any) -> None:
    """Support of different sizes, with a reference that is listed and one that is given."""
    contexts = [Context(f"Context {rank}.") for rank in range(1, 6)]
    for size in (1, 3):
        statements = [Statement(f"s{at}", f"Statement {at}.") for at in range(1, size + 2)]
        world.run(judge.support(contexts[:size], statements, call=Call("q1")))
        world.run(judge.context_use("When?", "In 1931.", "", contexts[:size], call=Call("q1")))
        world.run(judge.reverse_questions("When?", f"In {size}.", n=size, call=Call("q1")))


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-sonnet-5", "openai-compatible:llama"])
def test_all_that_comes_before_the_data_is_the_same_for_every_sample(world: Any, name: str) -> None:
    judged(world, world.judge(name))
    first: dict[str, str] = {}
    for seen in world.fake.chats:
        body = seen.body
        before = json.dumps([seen.schema, body.get("system"), body["messages"][:-1], body.get("prompt_cache_key")])
        assert first.setdefault(seen.kind + str(seen.asked.keys()), before) == before
    assert len(first) == 3


@pytest.mark.parametrize(
    ("name", "is_told", "is_marked"),
    [
        ("openai:gpt-6.1-sol", True, True),
        ("openai:gpt-6-luna", True, True),
        ("openai:gpt-7", True, False),  # nothing marked is nothing written, and nothing paid for
        ("openai:gpt-5.4-mini", False, False),
        ("openai:gpt-4o", False, False),
        ("openai-compatible:gpt-6.1-sol", False, False),
    ],
)
def test_models_that_mark_the_last_message_are_told_where_the_fixed_part_ends(
    world: Any, name: str, is_told: bool, is_marked: bool
) -> None:
    judged(world, world.judge(name))
    for seen in world.fake.chats:
        system, user = seen.body["messages"]
        assert isinstance(user["content"], str)
        assert seen.body.get("prompt_cache_options") == (MARK if is_told else None)
        marks = [part["prompt_cache_breakpoint"] for part in system["content"]] if is_marked else system["content"]
        assert marks == [MARK] if is_marked else isinstance(marks, str)


def test_a_model_that_refuses_the_marks_is_asked_without(world: Any, refuse: Any) -> None:
    message = "Unknown parameter: 'prompt_cache_options'."
    world.fake.always = lambda seen: refuse(400, message)(seen) if "prompt_cache_options" in seen.body else None
    judge = world.judge("openai:gpt-6.1-sol")
    judged(world, judge)
    assert isinstance(world.fake.chats[-1].body["messages"][0]["content"], str)
    assert any("prompt_cache_options" in note for note in judge.notes)


def test_prompts_are_long_only_where_that_is_known_to_pay() -> None:
    def longer(provider: str, model: str, **prices: Price) -> set[str]:
        layout = layout_of(provider, model, prices)
        return {name for name in NAMES if len(layout.prompts[name].static) > len(load_prompt(name, brief=True).static)}

    assert longer("openai", "gpt-6.1-sol") >= set(HEADLINE)
    assert longer("anthropic", "claude-sonnet-5") >= set(HEADLINE)
    assert longer("anthropic", "claude-haiku-4-5") == set()  # its cache starts at 4,096 tokens
    assert longer("anthropic", "claude-opus-5") == set()  # its cache takes the brief ones
    assert layout_of("anthropic", "claude-opus-5").cached_prompts >= set(HEADLINE)
    assert longer("openai", "gpt-9") == longer("openai-compatible", "gpt-6.1-sol") == set()
    same = Price(input=1.0, cached_input=1.0, output=1.0)
    assert longer("openai", "gpt-6.1-sol", **{"gpt-6.1-sol": same}) == set()
