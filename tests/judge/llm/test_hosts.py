"""The hosts that a judge needs, for a job whose network is restricted."""

from __future__ import annotations

import pytest

from ragstone.judge.llm.account_settings import judge_hosts, make_account, needs_key
from ragstone.settings.settings import JudgeSettings
from tests.judge.issuer import IDS

KEY = "k" * 20
KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
AWS = {"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b" * 20}
GOOGLE = {"CLOUD_ML_REGION": "eu", "ANTHROPIC_VERTEX_PROJECT_ID": "p", "GOOGLE_APPLICATION_CREDENTIALS": "f"}
GOOGLES = ("aiplatform.eu.rep", "iamcredentials", "oauth2", "sts")
IN_JOB = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t" * 20, **IDS}
SERVER = {"name": "openai-compatible:m", "base_url": "http://models.intern:8080/v1"}
EMBEDDINGS = {
    "base_url": "http://models.intern/v1",
    "embeddings": "e",
    "embeddings_base_url": "https://embed.intern/v1",
}


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        ({"name": "offline"}, {}, ()),
        ({"name": "openai:m"}, KEYS, ("api.openai.com:443",)),
        ({"name": "openai:m"}, IN_JOB, ("api.openai.com:443", "auth.openai.com:443")),
        ({"name": "anthropic:m"}, KEYS, ("api.anthropic.com:443",)),
        ({"name": "anthropic:m", "embeddings": "openai:e"}, KEYS, ("api.anthropic.com:443", "api.openai.com:443")),
        (SERVER, {}, ("models.intern:8080",)),
        (SERVER | EMBEDDINGS, {}, ("models.intern:80", "embed.intern:443")),
        ({"name": "vertex:m"}, GOOGLE, tuple(f"{name}.googleapis.com:443" for name in GOOGLES)),
        (
            {"name": "bedrock:m"},
            AWS,
            ("bedrock-runtime.eu-central-1.amazonaws.com:443", "sts.eu-central-1.amazonaws.com:443"),
        ),
    ],
)
def test_each_judge_names_the_hosts_that_it_asks(
    settings: dict[str, object], environ: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert judge_hosts(JudgeSettings.model_validate(settings), environ) == expected


@pytest.mark.parametrize(
    ("settings", "environ", "needed"),
    [
        ({"name": "openai:m"}, {}, True),
        ({"name": "openai:m"}, KEYS, False),
        ({"name": "openai:m"}, IN_JOB, False),
        ({"name": "openai-compatible:m"}, {}, False),
        ({"name": "offline"}, {}, False),
        ({"name": "bedrock:m"}, {}, True),
        ({"name": "bedrock:m"}, AWS, False),
        ({"name": "vertex:m", "api_key": KEY}, {}, False),
    ],
)
def test_a_hosted_judge_needs_a_key_or_a_job_s_identity(
    settings: dict[str, object], environ: dict[str, str], needed: bool
) -> None:
    assert needs_key(JudgeSettings.model_validate(settings), environ) is needed


def test_what_a_provider_says_is_shown_as_one_line_of_300_characters() -> None:
    account = make_account(JudgeSettings(name="openai:m"), "openai", "m", KEYS)
    words = "word " * 60
    assert account.safe_line(words) == words.strip()
    assert account.safe_line(f"{words}!") == f"{words[:297]}..."
    long = account.safe_line(words * 2)
    assert (len(long), long[-3:]) == (300, "...")
