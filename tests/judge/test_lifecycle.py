"""What is known of models' names, and where it is from."""

from __future__ import annotations

from typing import get_args

import pytest

from ragstone.judge.names import moving_name
from ragstone.judge.providers import Provider, find_provider


def provider(name: str) -> Provider:
    found = find_provider(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("service", "model", "fixed"),
    [
        ("openai", "gpt-5.4-mini", "gpt-5.4-mini-2026-03-17"),
        ("anthropic", "claude-haiku-4-5", "claude-haiku-4-5-20251001"),
        ("openai", "gpt-4o", "a name with a date"),
        ("openai", "gpt-5.3-chat-latest", "means the newest model"),
        ("openai", "gpt-5.4-mini-2026-03-17", None),
        ("anthropic", "claude-sonnet-4-6", None),  # fixed without a date, since Claude 4.6
        ("openai", "gpt-6.1-sol", None),  # no dated name is known
        ("openai-compatible", "gpt-4o", None),
        ("offline", "", None),
    ],
)
def test_a_name_that_may_be_moved_is_told_with_one_that_may_not(service: str, model: str, fixed: str | None) -> None:
    told = moving_name(service, model)
    assert fixed in str(told) if fixed else told is None


def test_dated_names_are_in_the_sdks_lists() -> None:
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    known = {*get_args(ChatModel), *get_args(get_args(Model)[0])}
    for service in ("openai", "anthropic"):
        for name, fixed in provider(service).snapshots.items():
            assert name in known
            assert not fixed or fixed in known
            assert not fixed or fixed.startswith(f"{name}-")
