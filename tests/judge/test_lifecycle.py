"""What is known of models' names, and where it is from."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import get_args

import pytest

from ragstone.judge.names import SOON_DAYS, moving_name, near_end
from ragstone.judge.providers import Provider, all_providers, find_provider


def provider(name: str) -> Provider:
    found = find_provider(name)
    assert found is not None
    return found


def end_of(name: str, model: str) -> date | None:
    return provider(name).end(model)


@pytest.mark.parametrize(
    ("provider", "model", "fixed"),
    [
        ("openai", "gpt-5.4-mini", "gpt-5.4-mini-2026-03-17"),
        ("anthropic", "claude-haiku-4-5", "claude-haiku-4-5-20251001"),
        ("openai", "gpt-4o", "a name with a date"),
        ("openai", "gpt-5.3-chat-latest", "means the newest model"),
    ],
)
def test_a_name_that_may_be_moved_is_told_with_one_that_may_not(provider: str, model: str, fixed: str) -> None:
    assert fixed in str(moving_name(provider, model))


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5.4-mini-2026-03-17"),
        ("anthropic", "claude-sonnet-4-6"),  # fixed without a date, since Claude 4.6
        ("anthropic", "claude-sonnet-5-5"),
        ("openai", "gpt-6.1-sol"),  # no dated name is known
        ("openai-compatible", "gpt-4o"),
        ("bedrock", "claude-haiku-4-5"),
        ("offline", ""),
    ],
)
def test_a_name_that_is_fixed_or_unknown_is_no_news(provider: str, model: str) -> None:
    assert moving_name(provider, model) is None


def test_an_end_holds_for_the_dated_names_too() -> None:
    assert end_of("openai", "gpt-5-mini") == end_of("openai", "gpt-5-mini-2025-08-07") == date(2026, 12, 11)
    assert end_of("openai", "gpt-5.4-mini") is None
    assert end_of("openai-compatible", "gpt-5-mini") is None


def test_an_end_is_told_when_it_is_near_and_after_it() -> None:
    end = date(2026, 12, 11)
    assert near_end("openai", "gpt-5", date(2026, 1, 1)) is None
    assert near_end("openai", "gpt-5", date.fromordinal(end.toordinal() - SOON_DAYS - 1)) is None
    assert "will be retired on 2026-12-11" in str(
        near_end("openai", "gpt-5", date.fromordinal(end.toordinal() - SOON_DAYS))
    )
    assert "was due to be retired on 2026-12-11" in str(near_end("openai", "gpt-5", date(2026, 12, 12)))


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


def test_the_table_says_when_it_was_read() -> None:
    for one in all_providers():
        assert (one.read_on is not None) == bool(one.prices or one.snapshots or one.ends)
        assert one.read_on is None or date.fromisoformat(one.read_on)
