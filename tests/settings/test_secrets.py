"""Keys: where they come from, and that a blank one is none, whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.redact import MASK, Redactor
from ragstone.judge.llm.account import parse_headers
from ragstone.judge.llm.account_settings import make_account, needs_key
from ragstone.judge.names import provider_of
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.settings.load import load_settings
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, JudgeSettings, Settings

BLANK = ("", "  ", "\n")


@pytest.mark.parametrize("blank", BLANK)
def test_a_blank_key_in_the_environment_is_not_set(tmp_path: Path, blank: str) -> None:
    names = ("RAGSTONE_JUDGE_API_KEY", "RAGSTONE_JUDGE_HEADERS", "RAGSTONE_EMBEDDINGS_API_KEY")
    judge = load_settings(directory=tmp_path, environ=dict.fromkeys(names, blank)).judge
    assert (judge.api_key, judge.headers, judge.embeddings_api_key) == (None, None, None)
    judge = load_settings(directory=tmp_path, environ={}, overrides={"judge.api_key": blank}).judge
    assert judge.api_key is None
    assert judge.secrets() == ()


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_blank_key_of_a_provider_is_not_set(provider: str, blank: str) -> None:
    variable = str(provider_of(provider).key_variable)
    environ = {variable: blank}
    judge = JudgeSettings(name=f"{provider}:m", api_key=blank)  # type: ignore[arg-type]
    assert not provider_of(provider).has_credentials(environ)
    assert needs_key(judge, environ)
    with pytest.raises(ConfigError, match="needs an API key, but none is set"):
        make_account(judge, provider, "m", environ)
    assert not needs_key(judge, {variable: " k-12345678 "})


@pytest.mark.parametrize(("key", "hidden"), [("ollama", False), ("Not-Needed", False), ("ollama-7", True)])
def test_a_placeholder_for_a_key_is_no_secret(key: str, hidden: bool) -> None:
    settings = Settings(judge=JudgeSettings(name="openai-compatible:ollama/llama3", api_key=key))  # type: ignore[arg-type]
    assert (key in known_secrets({}, settings)) is hidden
    for variable in ("RAGSTONE_JUDGE_API_KEY", "OPENAI_API_KEY"):
        assert (key in known_secrets({variable: f" {key} "}, Settings())) is hidden


def test_the_shortest_secret_is_the_same_wherever_one_is_hidden() -> None:
    for length, hidden in ((MIN_SECRET_CHARACTERS, True), (MIN_SECRET_CHARACTERS - 1, False)):
        secret = "k9-x7Q2"[:length]
        settings = Settings(judge=JudgeSettings(name="openai:m", api_key="k-12345678", headers=f"X-Key: {secret}"))  # type: ignore[arg-type]
        assert (secret in known_secrets({}, settings)) is hidden
        assert (Redactor([secret])(f"a {secret} b") == f"a {MASK} b") is hidden
        account = make_account(settings.judge, "openai", "m", {})
        assert (secret not in account.safe_line(f"refused {secret}")) is hidden
        assert parse_headers(settings.judge.headers)["X-Key"].get_secret_value() == secret
