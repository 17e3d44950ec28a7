"""What a job keeps whose base is not reviewed."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from ragstone.github.credentials import asks_a_server, without_credentials
from ragstone.settings.settings import JudgeSettings, Settings

KEY = "sk-0123456789"


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("OPENAI_API_KEY", "", False),
        ("A_COPY", KEY, False),
        ("PADDED", f" {KEY}\n", False),
        ("HEADER", f"Bearer {KEY}", False),
        ("SHORT_COPY", "ab", False),
        ("SHORT_PART", "about", True),
        ("EMPTY", "", True),
        ("OTHER", "sk-other", True),
    ],
)
def test_a_variable_goes_that_is_or_holds_a_credential(name: str, value: str, kept: bool) -> None:
    environ = {"RAGSTONE_JUDGE_API_KEY": KEY, "RAGSTONE_EMBEDDINGS_API_KEY": "ab", name: value}
    settings, left = without_credentials(Settings(judge=JudgeSettings(api_key=SecretStr(KEY))), environ)
    assert left == ({name: value} if kept else {})
    assert settings.judge.secrets() == ()


@pytest.mark.parametrize(
    ("judge", "asks"),
    [
        (JudgeSettings(name="offline"), False),
        (JudgeSettings(name="offline", embeddings="openai:m"), True),
        (JudgeSettings(name="offline", embeddings_base_url="https://e.example"), True),
        (JudgeSettings(name="openai:m"), True),
        (JudgeSettings(name="somebody-elses:m"), True),
    ],
)
def test_a_judge_asks_a_server_unless_it_is_a_free_one_without_embeddings(judge: JudgeSettings, asks: bool) -> None:
    assert asks_a_server(judge) is asks
