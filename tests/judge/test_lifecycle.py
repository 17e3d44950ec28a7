"""What is known of models' names, and where it is from."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import get_args

import pytest

from ragstone.judge.names import SOON_DAYS, moving_name, near_end
from ragstone.judge.providers import Provider, find_provider


def provider(name: str) -> Provider:
    found = find_provider(name)
    assert found is not None
    return found


def end_of(name: str, model: str) -> date | None:
    return provider(name).end(model)


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


@pytest.mark.parametrize(
    ("service", "model", "days", "told"),
    [
        ("openai", "gpt-5", -SOON_DAYS - 1, None),
        ("openai", "gpt-5", -SOON_DAYS, "will be retired on 2026-12-11"),
        ("openai", "gpt-5", 0, "will be retired on 2026-12-11"),
        ("openai", "gpt-5", 1, "was due to be retired on 2026-12-11"),
        ("openai", "gpt-5-mini-2025-08-07", 1, "was due to be retired on 2026-12-11"),
        ("openai", "gpt-5.4-mini", 1, None),
        ("openai-compatible", "gpt-5-mini", 1, None),
    ],
)
def test_an_end_is_told_when_it_is_near_and_after_it(service: str, model: str, days: int, told: str | None) -> None:
    found = near_end(service, model, date(2026, 12, 11) + timedelta(days))
    assert told in str(found) if told else found is None


def test_the_ends_of_anthropics_models_are_those_of_its_sdk_which_drops_models_that_ended() -> None:
    from anthropic.resources.messages import messages

    deprecated: dict[str, str] = vars(messages)["DEPRECATED_MODELS"]  # not exported by every release

    def day(text: str) -> date:
        return datetime.strptime(re.sub(r"(\d)(st|nd|rd|th)", r"\1", text), "%B %d, %Y").replace(tzinfo=UTC).date()

    for model in provider("anthropic").ends:
        listed = {name: text for name, text in deprecated.items() if re.fullmatch(rf"{model}(-\d{{8}})?", name)}
        ends = end_of("anthropic", model)
        assert ends is not None
        assert {day(text) for text in listed.values()} == ({ends} if listed else set()), model
        assert listed or ends < datetime.now(UTC).date(), model


def test_dated_names_are_in_the_sdks_lists() -> None:
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    known = {*get_args(ChatModel), *get_args(get_args(Model)[0])}
    for service in ("openai", "anthropic"):
        for name, fixed in provider(service).snapshots.items():
            assert name in known
            assert not fixed or fixed in known
            assert not fixed or fixed.startswith(f"{name}-")
