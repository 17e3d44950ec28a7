"""The hosts that a judge needs, for a job whose network is restricted."""

from __future__ import annotations

import pytest

from ragstone.judge.llm.account_settings import judge_hosts, make_account, needs_key
from ragstone.settings.settings import JudgeSettings
from tests.judge.issuer import IDS

AWS = {"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b" * 20}
IN_JOB = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t" * 20, **IDS}


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        ({"name": "offline"}, {}, ()),
        ({"name": "openai:m"}, {"OPENAI_API_KEY": "k" * 20}, ("api.openai.com:443",)),
        ({"name": "openai:m"}, IN_JOB, ("api.openai.com:443", "auth.openai.com:443")),
        ({"name": "anthropic:m"}, {"ANTHROPIC_API_KEY": "k" * 20}, ("api.anthropic.com:443",)),
        (
            {"name": "anthropic:m", "embeddings": "openai:e"},
            {"ANTHROPIC_API_KEY": "k" * 20, "OPENAI_API_KEY": "k" * 20},
            ("api.anthropic.com:443", "api.openai.com:443"),
        ),
        ({"name": "openai-compatible:m", "base_url": "http://models.intern:8080/v1"}, {}, ("models.intern:8080",)),
        (
            {
                "name": "openai-compatible:m",
                "base_url": "http://models.intern/v1",
                "embeddings": "e",
                "embeddings_base_url": "https://embed.intern/v1",
            },
            {},
            ("models.intern:80", "embed.intern:443"),
        ),
        (
            {"name": "vertex:m"},
            {"CLOUD_ML_REGION": "eu", "ANTHROPIC_VERTEX_PROJECT_ID": "p", "GOOGLE_APPLICATION_CREDENTIALS": "f"},
            (
                "aiplatform.eu.rep.googleapis.com:443",
                "iamcredentials.googleapis.com:443",
                "oauth2.googleapis.com:443",
                "sts.googleapis.com:443",
            ),
        ),
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
        ({"name": "openai:m"}, {"OPENAI_API_KEY": "k" * 20}, False),
        ({"name": "openai:m"}, IN_JOB, False),
        ({"name": "openai-compatible:m"}, {}, False),
        ({"name": "offline"}, {}, False),
        ({"name": "bedrock:m"}, {}, True),
        ({"name": "bedrock:m"}, AWS, False),
        ({"name": "vertex:m", "api_key": "k" * 20}, {}, False),
    ],
)
def test_a_hosted_judge_needs_a_key_or_a_job_s_identity(
    settings: dict[str, object], environ: dict[str, str], needed: bool
) -> None:
    assert needs_key(JudgeSettings.model_validate(settings), environ) is needed


def test_what_a_provider_says_is_shown_as_one_line_of_300_characters() -> None:
    account = make_account(JudgeSettings(name="openai:m"), "openai", "m", {"OPENAI_API_KEY": "k" * 20})
    words = "word " * 60
    assert account.scrubbed(words) == words.strip()
    assert account.scrubbed(f"{words}!") == f"{words[:297]}..."
    long = account.scrubbed(words * 2)
    assert (len(long), long[-3:]) == (300, "...")
