"""Anthropic's models on Bedrock and Vertex: the SDK's own clients, signing for real, against loopback servers."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ragstone.config.settings import JudgeSettings
from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import CloudAccount
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.llm.clouds import cloud_account, cloud_address
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import Call
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
    found: list[Seen] = []

    async def invoke(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        one = Seen(request.raw_path, dict(request.query), headers, await request.json())
        found.append(one)
        if world.fake.script:
            given = world.fake.script.popleft()(one)
            if isinstance(given, web.Response):
                return given
        assert one.body["anthropic_version"]
        assert "model" not in one.body
        return web.json_response(world.fake.message(Seen("", {}, {}, {**one.body, "model": "m"})))

    world.fake.extra |= {"POST /model/": invoke, "POST /projects/": invoke}
    return found


def judge(world: Any, name: str, environ: dict[str, str], **settings: Any) -> Any:
    given = {"base_url": world.fake.url, "api_key": None, **settings}
    return world.judge(name, environ=environ, **given)


def account_of(service: str, environ: dict[str, str], *, has_token: bool) -> CloudAccount:
    provider = provider_of(service)
    assert provider.cloud is not None
    return cloud_account(provider, provider.cloud, environ, has_token=has_token)


def ask(world: Any, made: Any) -> Any:
    return world.run(made.statements("When?", "In 1931.", call=Call("q1")))


def test_bedrock_is_asked_with_a_signature_of_the_jobs_credentials(world: Any, seen: list[Seen]) -> None:
    assert ask(world, judge(world, BEDROCK, AWS)).statements
    [request] = seen
    assert request.path == "/model/us.anthropic.claude-sonnet-5-v1:0/invoke"
    signed = request.headers["authorization"]
    assert re.match(r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-central-1/bedrock/aws4_request", signed)
    assert request.headers["x-amz-security-token"] == AWS["AWS_SESSION_TOKEN"]
    assert AWS["AWS_SECRET_ACCESS_KEY"] not in json.dumps(request.headers)
    assert request.body["output_config"]["format"]["type"] == "json_schema"


def test_bedrock_takes_a_bearer_token_of_its_own_in_place_of_a_signature(world: Any, seen: list[Seen]) -> None:
    ask(world, judge(world, BEDROCK, {"AWS_REGION": "us-east-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-0123"}))
    assert seen[0].headers["authorization"] == "Bearer bedrock-api-key-0123"


def test_vertex_is_asked_with_an_access_token(world: Any, seen: list[Seen]) -> None:
    assert ask(world, judge(world, VERTEX, GOOGLE, api_key=TOKEN)).statements
    [request] = seen
    assert request.path == (
        "/projects/acme/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5:rawPredict"
    )
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_vertex_signs_in_with_the_workload_identity_that_a_jobs_file_describes(
    world: Any, seen: list[Seen], tmp_path: Path
) -> None:
    asked: list[str] = []

    async def job(request: web.Request) -> web.Response:
        asked.append(request.headers["Authorization"])
        return web.json_response({"value": "id-token-of-the-job"})

    async def exchange(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["subject_token"]))
        return web.json_response(
            {
                "access_token": TOKEN,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                "token_type": "Bearer",
                "expires_in": 3600,
            }
        )

    world.fake.extra |= {"GET /idtoken": job, "POST /sts": exchange}
    source = {
        "url": f"{world.fake.url}/idtoken",
        "headers": {"Authorization": "Bearer request-token"},
        "format": {"type": "json", "subject_token_field_name": "value"},
    }
    described = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/github",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{world.fake.url}/sts",
        "credential_source": source,
    }
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    ask(world, judge(world, VERTEX, GOOGLE | {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}))
    assert asked == ["Bearer request-token", "id-token-of-the-job"]
    assert seen[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(("name", "environ", "settings"), [(BEDROCK, AWS, {}), (VERTEX, GOOGLE, {"api_key": TOKEN})])
def test_a_platform_that_refuses_the_caller_ends_the_run_and_names_the_credentials(
    world: Any, seen: list[Seen], name: str, environ: dict[str, str], settings: dict[str, Any]
) -> None:
    world.fake.script.append(
        lambda one: web.json_response({"message": f"not allowed: {one.headers['authorization']}"}, status=403)
    )
    with pytest.raises(JudgeError) as caught:
        ask(world, judge(world, name, environ, **settings))
    said = str(caught.value)
    assert "AWS_ACCESS_KEY_ID" in said if name == BEDROCK else "access token" in said
    assert TOKEN not in said


def test_google_credentials_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    from ragstone.judge.llm.anthropic import make_client

    path = tmp_path / "credentials.json"
    path.write_text("{}", encoding="utf-8")
    environ = GOOGLE | {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}
    account = make_account(JudgeSettings(name=VERTEX), "vertex", "claude-sonnet-5", environ)
    with pytest.raises(ConfigError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        make_client(account)


@pytest.mark.parametrize(
    ("service", "environ", "says"),
    [
        ("bedrock", {}, "AWS_REGION"),
        ("vertex", {}, "CLOUD_ML_REGION"),
        ("vertex", {"CLOUD_ML_REGION": "global"}, "ANTHROPIC_VERTEX_PROJECT_ID"),
        ("bedrock", {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKID"}, "only one of"),
    ],
)
def test_what_is_missing_is_named(service: str, environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        account_of(service, environ, has_token=False)
    assert says in str(caught.value)


@pytest.mark.parametrize(("service", "package"), [("bedrock", "boto3"), ("vertex", "google.auth")])
def test_a_missing_extra_is_named(service: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=re.escape(f'pip install "ragstone[{service}]"')):
        account_of(service, AWS | GOOGLE, has_token=False)


@pytest.mark.parametrize(
    ("service", "settings", "says"),
    [
        ("vertex", {"auth": "oidc"}, "does not support the job's identity"),
    ],
)
def test_what_a_platform_does_not_have_is_refused(service: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_account(JudgeSettings(name=f"{service}:m", **settings), service, "m", AWS | GOOGLE)


@dataclass
class Sts:
    """AWS's token service and GitHub's endpoint for ID tokens, on loopback."""

    world: Any
    lifetime_s: int = 3600
    refuse: bool = False
    published: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.fake.extra |= {"GET /idtoken": self.job, "POST /sts": self.assume}

    @property
    def environ(self) -> dict[str, str]:
        return {
            "AWS_REGION": "eu-central-1",
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/judge",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.world.fake.url}/idtoken?x=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request-token-0123456789",
        }

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response({"value": f"id-token-{len(self.forms)}-for-{request.query['audience']}"})

    async def assume(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        assert "Authorization" not in request.headers
        self.forms.append(form)
        if self.refuse:
            said = f"<Error><Code>AccessDenied</Code><Message>not with {form['WebIdentityToken']}</Message></Error>"
            return web.Response(status=403, text=f"<ErrorResponse>{said}</ErrorResponse>", content_type="text/xml")
        n = len(self.forms)
        until = (datetime.now(UTC) + timedelta(seconds=self.lifetime_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        given = (
            f"<AccessKeyId>AKID{n}</AccessKeyId><SecretAccessKey>secret-of-role-{n}</SecretAccessKey>"
            f"<SessionToken>session-of-role-{n}</SessionToken><Expiration>{until}</Expiration>"
        )
        space = "https://sts.amazonaws.com/doc/2011-06-15/"
        action = "AssumeRoleWithWebIdentity"
        result = f"<{action}Result><Credentials>{given}</Credentials></{action}Result>"
        return web.Response(
            text=f'<{action}Response xmlns="{space}">{result}</{action}Response>', content_type="text/xml"
        )


@pytest.fixture
def sts(world: Any, monkeypatch: pytest.MonkeyPatch) -> Sts:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"{world.fake.url}/sts")
    return Sts(world)


@pytest.mark.parametrize("auth", ["oidc", None])
def test_bedrock_is_signed_for_as_the_role_that_the_job_may_assume(
    world: Any, seen: list[Seen], sts: Sts, auth: str | None
) -> None:
    ask(world, judge(world, BEDROCK, sts.environ, auth=auth, tell_secret=sts.published.append))
    [form] = sts.forms
    assert form["Action"] == "AssumeRoleWithWebIdentity"
    assert form["RoleArn"] == sts.environ["AWS_ROLE_ARN"]
    assert form["WebIdentityToken"] == "id-token-0-for-sts.amazonaws.com"
    assert "Credential=AKID1/" in seen[0].headers["authorization"]
    assert seen[0].headers["x-amz-security-token"] == "session-of-role-1"
    assert sts.published == ["id-token-0-for-sts.amazonaws.com", "secret-of-role-1", "session-of-role-1"]


def test_a_roles_credentials_are_renewed_before_they_expire(world: Any, seen: list[Seen], sts: Sts) -> None:
    sts.lifetime_s = 60  # within botocore's window for a renewal that can't wait
    made = judge(world, BEDROCK, sts.environ, auth="oidc")
    ask(world, made)
    world.run(made.statements("When?", "In 1932.", call=Call("q2")))
    assert [request.headers["x-amz-security-token"] for request in seen] == ["session-of-role-1", "session-of-role-2"]
    assert len({form["WebIdentityToken"] for form in sts.forms}) == 2


def test_a_role_that_the_job_may_not_assume_ends_the_run(world: Any, sts: Sts) -> None:
    sts.refuse = True
    with pytest.raises(JudgeError) as caught:
        ask(world, judge(world, BEDROCK, sts.environ, auth="oidc"))
    said = str(caught.value)
    assert "bedrock refused this job's identity (HTTP 403): not with ***" in said
    assert "audience sts.amazonaws.com" in said


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
    cloud = provider_of(service).cloud
    assert cloud is not None
    region = account_of(service, environ, has_token=True).region
    client: Any = (
        anthropic.AsyncAnthropicBedrock(aws_region=region, api_key="k")
        if service == "bedrock"
        else anthropic.AsyncAnthropicVertex(region=region, project_id="p", access_token="t")
    )
    assert str(client.base_url).rstrip("/") == cloud_address(cloud, region)
