"""Anthropic's models on Bedrock and Vertex: the SDK's own clients, signing for real, against loopback servers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.protocol import JudgementFailed
from ragstone.settings.settings import JudgeSettings
from tests.judge.conftest import Seen

BEDROCK = "bedrock:us.anthropic.claude-sonnet-5-v1:0"
VERTEX = "vertex:claude-sonnet-5"
AWS = {
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws-0123456789",
    "AWS_SESSION_TOKEN": "session-of-aws-0123456789",
}
GOOGLE = {"CLOUD_ML_REGION": "europe-west1", "ANTHROPIC_VERTEX_PROJECT_ID": "acme"}
TOKEN = "ya29.token-of-google-0123456789"


@pytest.fixture
def seen(world: Any) -> list[Seen]:
    """Requests that reached a platform's server; it answers as the messages API does."""
    recorded: list[Seen] = []

    async def invoke(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen_request = Seen(request.raw_path, dict(request.query), headers, await request.json())
        recorded.append(seen_request)
        if world.fake.script:
            reply = world.fake.script.popleft()(seen_request)
            if isinstance(reply, web.Response):
                return reply
        assert seen_request.body["anthropic_version"]
        assert "model" not in seen_request.body
        return web.json_response(world.fake.message(Seen("", {}, {}, {**seen_request.body, "model": "m"})))

    world.fake.extra |= {"POST /model/": invoke, "POST /projects/": invoke}
    return recorded


def judge(world: Any, name: str, environ: dict[str, str], **settings: Any) -> Any:
    judge_settings = {"base_url": world.fake.url, "api_key": None, **settings}
    return world.judge(name, environ=environ, **judge_settings)


def test_bedrock_is_asked_with_a_signature_of_the_jobs_credentials(world: Any, seen: list[Seen]) -> None:
    assert world.ask(judge(world, BEDROCK, AWS)).statements
    [request] = seen
    assert request.path == "/model/us.anthropic.claude-sonnet-5-v1:0/invoke"
    signed = request.headers["authorization"]
    assert re.match(r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-central-1/bedrock/aws4_request", signed)
    assert request.headers["x-amz-security-token"] == AWS["AWS_SESSION_TOKEN"]
    assert AWS["AWS_SECRET_ACCESS_KEY"] not in json.dumps(request.headers)
    assert request.body["output_config"]["format"]["type"] == "json_schema"


def test_vertex_signs_in_with_the_workload_identity_that_a_jobs_file_describes(
    world: Any, seen: list[Seen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizations: list[str] = []

    async def job(request: web.Request) -> web.Response:
        authorizations.append(request.headers["Authorization"])
        return web.json_response({"value": "id-token-of-the-job"})

    async def exchange(request: web.Request) -> web.Response:
        authorizations.append(str((await request.post())["subject_token"]))
        issued = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer"}
        return web.json_response({"access_token": TOKEN, "expires_in": 3600, **issued})

    world.fake.extra |= {"GET /idtoken": job, "POST /sts": exchange}
    described = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/locations/global/workloadIdentityPools/p/providers/github",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{world.fake.url}/sts",
        "credential_source": {
            "url": f"{world.fake.url}/idtoken",
            "headers": {"Authorization": "Bearer request-token"},
            "format": {"type": "json", "subject_token_field_name": "value"},
        },
    }
    (tmp_path / "credentials.json").write_text(json.dumps(described), encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "credentials.json"))
    published: list[str] = []
    world.ask(judge(world, VERTEX, GOOGLE, tell_secret=published.append))
    assert published == [TOKEN]
    assert authorizations == ["Bearer request-token", "id-token-of-the-job"]
    path = "/projects/acme/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5:rawPredict"
    assert (seen[0].path, seen[0].headers["authorization"]) == (path, f"Bearer {TOKEN}")


@pytest.mark.parametrize(("name", "environ", "settings"), [(BEDROCK, AWS, {}), (VERTEX, GOOGLE, {"api_key": TOKEN})])
def test_a_platform_that_refuses_the_caller_ends_the_run_and_names_the_credentials(
    world: Any, seen: list[Seen], name: str, environ: dict[str, str], settings: dict[str, Any]
) -> None:
    world.fake.script.append(
        lambda one: web.json_response({"message": f"not allowed: {one.headers['authorization']}"}, status=403)
    )
    with pytest.raises(JudgeError) as caught:
        world.ask(judge(world, name, environ, **settings))
    said = str(caught.value)
    assert "AWS_ACCESS_KEY_ID" in said if name == BEDROCK else "RAGSTONE_JUDGE_API_KEY" in said
    assert TOKEN not in said


@pytest.mark.parametrize(
    ("service", "environ", "says"),
    [
        ("bedrock", {}, "AWS_REGION"),
        ("vertex", {}, "CLOUD_ML_REGION"),
        ("vertex", {"CLOUD_ML_REGION": "global"}, "ANTHROPIC_VERTEX_PROJECT_ID"),
    ],
)
def test_what_is_missing_is_named(service: str, environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_account(JudgeSettings(name=f"{service}:m"), service, "m", environ)
    assert says in str(caught.value)


def test_credentials_that_can_not_sign_in_end_the_run(
    world: Any, seen: list[Seen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "credentials.json"))
    with pytest.raises(JudgementFailed, match="can't sign in to vertex"):
        world.ask(judge(world, VERTEX, GOOGLE))
    assert seen == []


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        (BEDROCK, AWS),
        *((VERTEX, GOOGLE | {"CLOUD_ML_REGION": region}) for region in ("global", "us", "eu", "europe-west1")),
    ],
)
def test_addresses_are_those_of_the_sdk(name: str, environ: dict[str, str]) -> None:
    import anthropic

    service = name.partition(":")[0]
    account = make_account(JudgeSettings(name=name), service, "m", environ)
    client: Any = (
        anthropic.AsyncAnthropicBedrock(aws_region=environ["AWS_REGION"], api_key="k")
        if service == "bedrock"
        else anthropic.AsyncAnthropicVertex(region=environ["CLOUD_ML_REGION"], project_id="p", access_token="t")
    )
    assert str(client.base_url).rstrip("/") == account.address.base_url
