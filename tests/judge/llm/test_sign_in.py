"""A job's own identity in place of a key: both SDKs' real exchanges, against loopback GitHub and providers."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from openai.auth import WorkloadIdentityAuth

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.settings.settings import JudgeSettings
from tests.judge.issuer import REQUEST_TOKEN, Issuer, jwt

OPENAI = "openai:gpt-4o-mini"
ANTHROPIC = "anthropic:claude-haiku-4-5"


@pytest.fixture
def issuer(world: Any, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    defaults = WorkloadIdentityAuth.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "token_exchange_url", f"{world.fake.url}/oauth/token")
    return Issuer(world.fake)


def judge_of(world: Any, issuer: Issuer, name: str, **settings: Any) -> Any:
    judge_settings = {"api_key": None, **settings}
    return world.judge(name, environ=issuer.environ, tell_secret=issuer.published.append, **judge_settings)


EXCHANGES = {
    OPENAI: {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": jwt(0, "https://api.openai.com/v1"),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "identity_provider_id": "idp_1",
        "service_account_id": "svc_1",
    },
    ANTHROPIC: {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": jwt(0, "https://api.anthropic.com"),
        "federation_rule_id": "fdrl_1",
        "organization_id": "00000000-0000-0000-0000-000000000001",
        "service_account_id": "svac_1",
    },
}


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_provider_gets_the_jobs_token_in_exchange_for_one_of_its_own(world: Any, issuer: Issuer, name: str) -> None:
    world.ask(judge_of(world, issuer, name))
    assert issuer.exchanges == [EXCHANGES[name]]
    headers = world.fake.seen[0].headers
    assert headers["authorization"] == f"Bearer {issuer.tokens[0]}"
    assert "x-api-key" not in headers


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_many_calls_at_once_share_one_exchange(world: Any, issuer: Issuer, name: str) -> None:
    issuer.delay_s = 0.2
    judge = judge_of(world, issuer, name)

    async def work() -> None:
        await asyncio.gather(*(judge.statements("When?", f"In {n}.", call=Call("q1")) for n in range(20)))

    world.run(work())
    assert len(world.fake.seen) == 20
    assert len(issuer.exchanges) == 1


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_token_is_renewed_when_it_expires(world: Any, issuer: Issuer, name: str) -> None:
    issuer.lifetime_s = 1
    judge = judge_of(world, issuer, name)
    world.ask(judge, "In 1.")
    time.sleep(1.1)
    world.ask(judge, "In 2.")
    assert len(issuer.exchanges) == 2
    # Each exchange shows an ID token of its own: the job's are valid for minutes only.
    assert len(set(issuer.job_tokens)) == 2
    assert world.fake.seen[-1].headers["authorization"] == f"Bearer {issuer.tokens[1]}"


def test_a_token_that_openai_no_longer_takes_is_replaced_once(world: Any, issuer: Issuer) -> None:
    judge = judge_of(world, issuer, OPENAI)
    world.ask(judge, "In 1.")
    issuer.accepted.clear()

    async def work() -> None:
        await asyncio.gather(*(judge.statements("When?", f"In 2{n}.", call=Call("q1")) for n in range(8)))

    world.run(work())
    assert len(issuer.exchanges) == 2


class Nothing(set[str]):
    """Tokens of which the provider takes none."""

    def add(self, _token: str) -> None: ...


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    ("changes", "error", "said", "exchanges"),
    [
        ({"refuse": 400}, JudgeError, "refused this job's identity: HTTP 400: ", 1),
        ({"refuse": 403}, JudgeError, "refused this job's identity: HTTP 403: ", 1),
        ({"accepted": Nothing()}, JudgeError, "refused this job's identity", None),
        ({"refuse_job": 403}, JudgeError, "id-token: write", 0),
        ({"refuse_job": 500}, JudgementFailed, "no ID token of this job (HTTP 500)", 0),
        ({"refuse": 503}, JudgementFailed, "no reply after 5 attempts", 5),
    ],
)
def test_an_identity_that_is_refused_ends_the_run_with_what_to_compare(
    world: Any,
    issuer: Issuer,
    name: str,
    changes: dict[str, Any],
    error: type[Exception],
    said: str,
    exchanges: int | None,
) -> None:
    for attribute, value in changes.items():
        setattr(issuer, attribute, value)
    with pytest.raises(error) as caught:
        world.ask(judge_of(world, issuer, name))
    words = str(caught.value)
    assert said in words
    assert exchanges is None or len(issuer.exchanges) == exchanges
    assert ("issuer is https://token.actions.githubusercontent.com" in words) is ("identity" in said)
    # The provider's words may hold a token.
    assert not any(token in words for token in (*issuer.job_tokens, *issuer.tokens))


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_every_token_is_told_before_it_is_used_and_shown_nowhere(
    world: Any, issuer: Issuer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    judge = judge_of(world, issuer, name)
    world.ask(judge)
    assert issuer.published == [issuer.job_tokens[0], issuer.tokens[0]]
    issuer.accepted.clear()
    issuer.refuse = 401
    with pytest.raises(JudgeError) as caught:
        world.ask(judge, "In 2.")
    account = make_account(JudgeSettings(name=name, base_url=world.fake.url), name.split(":")[0], "m", issuer.environ)
    assert account.job_identity
    everything_shown = f"{caught.value}{caplog.text}{account!r}{judge.identity!r}{account.tokens!r}"
    for secret in (REQUEST_TOKEN, *issuer.job_tokens, *issuer.tokens):
        assert secret not in everything_shown


def test_a_key_goes_first_and_the_identity_stands_in_for_none(world: Any, issuer: Issuer) -> None:
    def account(**more: str) -> Any:
        return make_account(JudgeSettings(name=OPENAI), "openai", "gpt-4o-mini", issuer.environ | more)

    assert account().job_identity
    assert not account(OPENAI_API_KEY="sk-0123456789").job_identity


@pytest.mark.parametrize(
    ("name", "missing", "says"),
    [
        (OPENAI, "OPENAI_IDENTITY_PROVIDER_ID", "needs OPENAI_IDENTITY_PROVIDER_ID"),
        (ANTHROPIC, "ACTIONS_ID_TOKEN_REQUEST_URL", "id-token: write"),
    ],
)
def test_what_is_not_set_is_named(issuer: Issuer, name: str, missing: str, says: str) -> None:
    environ = {variable: value for variable, value in issuer.environ.items() if variable != missing}
    with pytest.raises(ConfigError, match=says):
        make_account(JudgeSettings(name=name), name.partition(":")[0], "m", environ)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        (OPENAI, {"base_url": "http://example.com/v1"}, "not an https address"),
        (OPENAI, {"base_url": "https://x.openai.azure.com/openai?api-version=2024-10-21"}, "Azure"),
    ],
)
def test_what_can_not_go_with_an_identity_is_refused(
    issuer: Issuer, name: str, settings: dict[str, Any], says: str
) -> None:
    provider, _, model = name.partition(":")
    with pytest.raises(ConfigError, match=says):
        make_account(JudgeSettings(name=name, **settings), provider, model, issuer.environ)
