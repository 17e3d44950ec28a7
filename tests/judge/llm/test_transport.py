"""What goes over the wire to each provider, and what each way of failing says to the person who hits it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import ssl
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import Account, looks_random, parse_address
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.llm.features import FeatureRefused
from ragstone.judge.llm.provider import RateLimited, Rejected, TemporaryFault
from ragstone.judge.llm.transport import (
    body_error,
    connection_error,
    encode_request,
    request_error,
    retry_after_s,
    status_error,
    tls_context,
)
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.settings.settings import JudgeSettings
from tests.loopback import write_certificate

OPENAI = "openai:gpt-4o-mini"
ANTHROPIC = "anthropic:claude-haiku-4-5"
COMPATIBLE = "openai-compatible:llama"
ALL = (OPENAI, ANTHROPIC, COMPATIBLE)


def bad_request(message: str, param: str | None = None) -> Callable[[Any], web.Response]:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}
    return lambda _seen: web.json_response(body, status=400)


def refusing(*names: str) -> Callable[[Any], web.Response | None]:
    """A model that takes none of the parameters `names`."""

    def answer(seen: Any) -> web.Response | None:
        for name in names:
            if name in seen.body:
                return bad_request(f"Unsupported parameter: '{name}' is not supported with this model.", name)(seen)
        return None

    return answer


def account() -> Account:
    return make_account(JudgeSettings(), "openai", "m", {"OPENAI_API_KEY": "k" * 20})


def test_openai_is_asked_in_its_strict_json_schema_mode(world: Any, key: str) -> None:
    world.ask(name=OPENAI)
    seen = world.fake.seen[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {key}"
    assert seen.body["response_format"]["json_schema"]["strict"] is True
    assert seen.body["temperature"] == 0
    assert [message["role"] for message in seen.body["messages"]] == ["system", "user"]


def test_anthropic_is_asked_in_its_json_schema_mode_with_the_static_part_cached(world: Any, key: str) -> None:
    world.ask(name=ANTHROPIC)
    seen = world.fake.seen[0]
    assert seen.path == "/v1/messages"
    assert seen.headers["authorization"] == f"Bearer {key}"
    assert seen.body["output_config"]["format"]["type"] == "json_schema"
    assert seen.body["system"][0]["cache_control"] == {"type": "ephemeral"}


def test_a_server_without_a_key_gets_no_real_one(world: Any) -> None:
    world.ask(name=COMPATIBLE, environ={"OPENAI_API_KEY": "sk-not-for-this-server-000"})
    assert "sk-not" not in json.dumps(world.fake.seen[0].headers)


def test_an_azure_address_keeps_its_version_and_takes_the_key_in_its_own_header(world: Any, key: str) -> None:
    base = f"{world.fake.url}/openai/deployments/gpt4o?api-version=2024-10-21"
    judge = world.judge(OPENAI, base_url=base)
    world.ask(judge)
    seen = world.fake.seen[0]
    assert seen.path == "/openai/deployments/gpt4o/chat/completions"
    assert seen.query == {"api-version": "2024-10-21"}
    assert seen.headers["api-key"] == key
    assert "authorization" not in seen.headers
    assert judge.identity.endpoint.endswith("/openai/deployments/gpt4o?api-version=2024-10-21")


def test_parameters_that_a_model_refuses_are_left_out_from_then_on_and_learnt_once(world: Any) -> None:
    world.fake.always = refusing("temperature", "prompt_cache_key", "reasoning_effort")
    judge = world.judge(OPENAI, parameters={"reasoning_effort": "low"})

    async def many() -> None:
        await asyncio.gather(
            *(judge.statements("When?", f"In {year}.", call=Call(str(year))) for year in range(1900, 1940))
        )

    world.run(many())
    assert world.fake.seen[0].body["reasoning_effort"] == "low"
    refused = {"temperature", "prompt_cache_key", "reasoning_effort"}
    assert sum(not refused & seen.body.keys() for seen in world.fake.seen) == 40
    assert len(judge.notes) == 3
    assert ("reasoning_effort", "low") in judge.identity.parameters


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (OPENAI, "Unsupported parameter: 'max_completion_tokens' is not supported with this model."),
        (COMPATIBLE, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        (COMPATIBLE, "max_tokens is too large: 9216. This model supports at most 1024 completion tokens"),
        (
            COMPATIBLE,
            "This model's maximum context length is 8192 tokens. However, you requested 10716 tokens (1500 in the "
            "messages, 9216 in the completion). Please reduce the length of the messages or completion.",
        ),
    ],
)
def test_a_limit_of_output_that_a_model_refuses_is_left_to_the_model(world: Any, name: str, message: str) -> None:
    def answer(seen: Any) -> web.Response | None:
        limited = {"max_tokens", "max_completion_tokens"} & seen.body.keys()
        return bad_request(message)(seen) if limited else None

    world.fake.always = answer
    judge = world.judge(name)
    assert world.ask(judge).statements
    assert world.ask(judge).statements
    assert len(world.fake.seen) == 3
    assert sum("limit holds" in note for note in judge.notes) == 1


REFUSED_SCHEMAS = {
    "OpenAI": (OPENAI, 400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"),
    "too large": (OPENAI, 400, "Invalid schema for response_format 'support': Expected at most 1000 enum values"),
    "Gemini": (COMPATIBLE, 400, "The specified schema produces a constraint that has too many states for serving."),
    "OpenRouter": (COMPATIBLE, 404, "No endpoints found that can handle the requested parameters."),
    "vLLM": (COMPATIBLE, 500, "Failed to compile the grammar of the request"),
    "Anthropic": (ANTHROPIC, 400, "output_config.format: Extra inputs are not permitted"),
    "Vertex' policy": (
        ANTHROPIC,
        403,
        "Organization Policy constraint constraints/vertexai.allowedPartnerModelFeatures violated for projects/p "
        "attempting to use a disallowed Gen AI feature structured_outputs for model claude.",
    ),
}


@pytest.mark.parametrize("case", REFUSED_SCHEMAS)
def test_a_schema_that_is_refused_whatever_the_status_goes_into_the_prompt_once_for_all(
    world: Any, refuse: Any, case: str
) -> None:
    name, status, message = REFUSED_SCHEMAS[case]
    strict = {"response_format", "output_config"}
    world.fake.always = lambda seen: refuse(status, message)(seen) if strict & seen.body.keys() else None
    judge = world.judge(name, context_window=100_000)
    world.ask(judge, "In 1.")
    world.ask(judge, "In 2.")
    assert [bool(strict & seen.body.keys()) for seen in world.fake.seen] == [True, False, False]
    assert "JSON schema:" in world.fake.seen[-1].data
    assert judge.notes == ("the model has no JSON-schema mode; the schema is in the prompt",)
    assert judge.observed_judge.request_modes == {"prompt"}


def test_a_model_without_a_system_role_gets_the_prompt_in_the_user_s_message(world: Any) -> None:
    def answer(seen: Any) -> web.Response | None:
        roles = [message["role"] for message in seen.body["messages"]]
        return bad_request("System role not supported")(seen) if "system" in roles else None

    world.fake.always = answer
    judge = world.judge(COMPATIBLE, context_window=100_000)
    assert world.ask(judge).statements
    last = world.fake.seen[-1].body["messages"]
    assert [message["role"] for message in last] == ["user"]
    assert last[0]["content"].startswith("You are a careful")
    assert "<<<answer " in last[0]["content"]
    assert judge.notes == ("the model has no system role; the prompt is in the user's message",)


QUOTA, KEY, WINDOW = "out of quota", "refused the API key", "longer than the judge's window"
FILTER, MODEL, OTHER = "content filter", "does not know the model 'm'", "the judge rejected the request"
NO_JSON = "Failed to generate JSON. Please adjust your prompt."


@pytest.mark.parametrize(
    ("status", "message", "fault", "says"),
    [
        (400, NO_JSON, TemporaryFault, "HTTP 400"),
        (422, NO_JSON, TemporaryFault, "HTTP 422"),
        (401, NO_JSON, JudgeError, KEY),
        (402, "Payment required", JudgeError, QUOTA),
        (429, "You exceeded your quota: insufficient_quota", JudgeError, QUOTA),
        (400, "You have reached your specified API usage limits", JudgeError, QUOTA),
        (403, "Your credit balance is too low to access the API", JudgeError, QUOTA),
        (401, "Your credit balance is too low to access the API", JudgeError, KEY),
        (400, "The response was filtered: content_filter", Rejected, FILTER),
        (403, "Your input was flagged by the provider", Rejected, FILTER),
        (422, "Your input was flagged by the provider", Rejected, FILTER),
        (500, "Your input was flagged by the provider", TemporaryFault, "HTTP 500"),
        (403, "This key has been revoked", JudgeError, KEY),
        (400, "API key not valid. Please pass a valid API key.", JudgeError, KEY),
        (404, "API key not valid. Please pass a valid API key.", JudgeError, MODEL),
        (300, "", JudgeError, "redirects to an unnamed address"),
        (399, "", JudgeError, "redirects to an unnamed address"),
        (404, "", JudgeError, MODEL),
        (408, "", TemporaryFault, "HTTP 408"),
        (409, "", TemporaryFault, "HTTP 409"),
        (425, "", TemporaryFault, "HTTP 425"),
        (500, "", TemporaryFault, "HTTP 500"),
        (529, "", TemporaryFault, "HTTP 529"),
        (499, "", Rejected, OTHER),
        (413, "", Rejected, WINDOW),
        (400, "This model's maximum context length is 8192 tokens", Rejected, WINDOW),
        (400, "What is this?", Rejected, OTHER),
    ],
)
def test_what_an_error_means_is_told_by_its_status_and_its_words(
    status: int, message: str, fault: type[Exception], says: str
) -> None:
    raised_error = status_error(account(), status, {}, {"error": {"message": message}})
    assert type(raised_error) is fault
    assert says in str(raised_error)


@pytest.mark.parametrize(
    ("name", "status", "message", "code", "says", "hint"),
    [
        (OPENAI, 429, "You exceeded your current quota", "insufficient_quota", QUOTA, "--resume"),
        (COMPATIBLE, 401, "Incorrect API key provided", None, KEY, "RAGSTONE_JUDGE_API_KEY"),
        (ANTHROPIC, 404, "The model `claude` does not exist", None, "does not know the model", "judge.base_url"),
        ("openai:gpt4o-mini", 404, "No such model", None, "does not know", "Did you mean 'openai:gpt-4o-mini'"),
    ],
)
def test_an_account_that_can_not_judge_ends_the_run_with_what_to_do(
    world: Any, refuse: Any, name: str, status: int, message: str, code: str | None, says: str, hint: str
) -> None:
    world.fake.always = refuse(status, message, code)
    with pytest.raises(JudgeError, match=says) as caught:
        world.ask(name=name)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 5
    assert len(world.fake.seen) == 1


@pytest.mark.parametrize(
    ("status", "message", "is_a_feature"),
    [
        (400, "Extra inputs are not permitted", True),
        (500, "Failed to compile the grammar", True),
        (401, "Who are you?", False),
        (402, "Pay", False),
        (429, "Slow down", False),
        (400, "max_tokens must be at least 1, got -186", False),
        (400, NO_JSON, False),
    ],
)
def test_which_refusals_may_be_about_a_feature(status: int, message: str, is_a_feature: bool) -> None:
    raised_error = request_error(account(), status, {}, {"error": {"message": message}})
    assert isinstance(raised_error, FeatureRefused) is is_a_feature


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ({"code": 402, "message": "Insufficient credits"}, QUOTA),
        ({"code": "429", "message": "Busy"}, "HTTP 429"),
        ({"code": 399, "message": "Moved"}, "HTTP 502"),
        ({"code": 4000, "message": "Odd"}, "HTTP 502"),
        ("Provider returned error", "HTTP 502"),
        ({}, None),
    ],
)
def test_an_error_in_a_reply_of_status_200_is_the_one_that_its_code_says(error: object, says: str | None) -> None:
    raised_error = body_error(account(), {"error": error})
    assert (says in str(raised_error)) if says else (raised_error is None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([{"error": {"message": "Google's"}}], ": Google's"),
        ([], ""),
        ({"error": "as text"}, ": as text"),
        ({"error": {"detail": "of FastAPI"}}, ": of FastAPI"),
        ({"error": {}}, ""),
        ({"msg": "of a gateway"}, ": of a gateway"),
        ({"message": {"loc": ["body"]}}, ': {"loc": ["body"]}'),
        ("bare words", ": bare words"),
        (7, ""),
    ],
)
def test_the_words_of_an_error_are_found_in_every_shape(body: object, reason: str) -> None:
    assert str(status_error(account(), 500, {}, body)) == f"HTTP 500{reason}"


@pytest.mark.parametrize("detail", [{"reason": "API_KEY_INVALID"}, {"reason": 7}, "API_KEY_INVALID"])
def test_the_reason_in_the_details_of_an_error_counts(detail: object) -> None:
    raised_error = status_error(account(), 400, {}, {"error": {"message": "No.", "details": [detail]}})
    assert isinstance(raised_error, JudgeError) is (detail == {"reason": "API_KEY_INVALID"})


def test_a_dead_proxy_is_called_a_proxy(world: Any) -> None:
    async def call() -> None:
        async with aiohttp.ClientSession() as session, session.get("https://api.test/", proxy="http://127.0.0.1:9"):
            pass

    with pytest.raises(aiohttp.ClientProxyConnectionError) as caught:
        world.run(call())
    fault = connection_error(account(), caught.value)
    assert "no connection to the proxy 127.0.0.1:9 that HTTPS_PROXY or HTTP_PROXY names" in str(fault)


@pytest.mark.parametrize(("name", "status"), [(OPENAI, 301), (ANTHROPIC, 307)])
def test_a_redirect_is_not_followed_with_the_key(world: Any, name: str, status: int) -> None:
    headers = {"Location": "https://elsewhere.test/v1?x=1"}
    world.fake.always = lambda _seen: web.Response(status=status, headers=headers)
    with pytest.raises(JudgeError, match=r"redirects to https://elsewhere\.test/v1;"):
        world.ask(name=name)
    assert len(world.fake.seen) == 1


def limited(body: Any, headers: Mapping[str, str] | None = None, *, status: int = 429) -> Exception:
    return status_error(account(), status, headers or {}, body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"error": {"code": 429, "message": "Quota exceeded.\nPlease retry in 47.1s."}}, 47.1),
        ([{"error": {"details": [{"@type": "RetryInfo", "retryDelay": "31s"}], "message": "Quota."}}], 31.0),
        ({"error": {"message": "Rate limit reached on tokens per min (TPM). Please try again in 6m0s."}}, 360.0),
        ({"error": {"message": "Rate limit reached. Please try again in 120ms."}}, 0.12),
        ({"error": {"message": "You exceeded your current quota, please retry in 12 s."}}, 12.0),
        ({"error": {"message": "You exceeded the limit of your pricing tier. Please retry after 6 seconds."}}, 6.0),
        ({"error": {"message": "Please retry after lunch, in 999999999999 ways."}}, None),
        ({"error": {"message": "Slow down.", "details": [{"retryDelay": {"s": 3}}]}}, None),
        ({"error": {"message": "Slow down.", "details": [{"retryDelay": "about 3s"}]}}, None),
        ({"error": {"message": "Rate limit. Add credit at https://platform.openai.com/account/billing."}}, None),
    ],
)
def test_the_wait_that_a_body_asks_for_is_read(body: Any, says: float | None) -> None:
    fault = limited(body)
    assert isinstance(fault, RateLimited)
    assert fault.retry_after_s == says
    fault_with_header = limited(body, {"retry-after": "2"})
    assert isinstance(fault_with_header, RateLimited)
    assert fault_with_header.retry_after_s == 2.0, "a header counts first"


def test_a_quota_of_a_day_is_not_waited_for() -> None:
    violations = [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}]
    body = {"error": {"message": "Quota.", "details": [{"violations": violations}, {"retryDelay": "20s"}]}}
    assert isinstance(limited(body), JudgeError)
    assert not isinstance(limited(body, status=503), JudgeError)


@pytest.mark.parametrize(
    ("secret", "is_random"),
    [
        ("a1b2c3d4", True),
        ("a1b2c3d", False),
        ("a1 b2c3d4", False),
        ("abababab1", False),
        ("abcde111", True),
        ("correcthorsebatterystapl", True),
        ("correcthorsebatterystap", False),
        ("correct horse battery staple", False),
        ("12345678", False),
    ],
)
def test_a_secret_is_masked_in_names_if_no_text_has_it_by_chance(secret: str, is_random: bool) -> None:
    assert bool(looks_random(secret)) is is_random


@pytest.mark.parametrize("name", ALL)
def test_what_is_no_reply_is_got_over(world: Any, refuse: Any, name: str) -> None:
    world.fake.script.extend([refuse(500, "oops"), refuse(429, "slow down", Retry_After="1")])
    assert world.ask(name=name).statements
    assert len(world.fake.seen) == 3
    page, json_type = "<html>Please log in</html>", "application/json"
    for text, kind in ((page, "text/html"), ("null", json_type), ('{"choices": [', json_type)):
        world.fake.script.append(lambda _seen, text=text, kind=kind: web.Response(text=text, content_type=kind))
    world.fake.script.append(lambda _seen: web.json_response({"choices": [], "content": None}))
    assert world.ask(name=name).statements
    assert len(world.fake.seen) == 8


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_an_address_where_nobody_listens_is_named(world: Any, name: str) -> None:
    with pytest.raises(JudgementFailed, match=r"no connection to 127\.0\.0\.1"):
        world.ask(name=name, base_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        *((url, "a credential") for url in ("https://user@host/v1", "https://:secret@host/v1")),
        *((url, "a credential") for url in ("https://host/v1?api-key=secret", "https://host/v1?SIG=secret")),
        *((url, "not an http or https address") for url in ("ftp://host/v1", "localhost:8080", "http://", "")),
    ],
)
def test_an_address_that_is_none_or_has_a_credential_is_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)


def test_prompt_caching_is_counted_by_kind_of_token(world: Any) -> None:
    world.fake.usage = {"input_tokens": 100, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 100}
    call = Call("q1", ledger=Ledger())
    world.run(world.judge(ANTHROPIC).statements("When?", "In 1931.", call=call))
    assert (call.ledger.input_tokens, call.ledger.cached_input_tokens) == (1000, 800)
    assert call.ledger.cost_usd == pytest.approx((100 * 1.0 + 800 * 0.1 + 100 * 1.25 + 50 * 5.0) / 1e6)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Fri, 01 Jan 1999 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Fri, 01 Jan 99999 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize("name", ALL)
def test_the_key_is_in_no_log_error_record_cache_or_chain(
    world: Any, refuse: Any, key: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After every kind of failure, with a server that echoes the key in all it says, and all loggers wide open."""
    caplog.set_level(logging.DEBUG)

    async def hang(_seen: Any) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    kinds: list[Any] = [refuse(status, f"Bad key {key}, sent as Bearer {key}") for status in (400, 401, 403, 404, 500)]
    kinds += [refuse(429, f"key {key} is busy"), refuse(429, f"{key} has no quota", "insufficient_quota"), hang]
    kinds += [lambda _seen: f"My key is {key}", lambda _seen: web.Response(text=f"<html>{key}</html>")]
    output = io.StringIO()
    for at, kind in enumerate(kinds):
        world.fake.always = kind
        cache = tmp_path / f"{at}.sqlite"
        judge = world.judge(name, cache=cache, timeout_s=0.15, patience_s=0.1, api_key=key)
        try:
            world.ask(judge)
        except (JudgeError, JudgementFailed) as error:
            output.write("".join(traceback.TracebackException.from_exception(error, capture_locals=False).format()))
            chain: BaseException | None = error
            while chain is not None:
                output.write(f"{chain!r} {chain.__dict__!r}")
                chain = chain.__cause__ or chain.__context__
        else:
            pytest.fail("nothing failed")
        output.write(f"{judge!r} {judge.identity!r} {judge.notes!r} {judge.__dict__!r}")
        world.run(judge.close())
        output.write(cache.read_bytes().decode("latin-1"))
    assert key not in output.getvalue()
    assert key not in caplog.text


@pytest.mark.parametrize("text", ["plain", 'quo"ted\n', "über 橋 😀", "lone \ud800 surrogate", "\x00\x1f"])
def test_bodies_are_json_whatever_the_text(text: str) -> None:
    read = json.loads(encode_request({"a": [text], "b": 1.5, "c": None, "d": True}))
    assert read == {"a": [text.replace("\ud800", "?")], "b": 1.5, "c": None, "d": True}


class Proxy:
    """A CONNECT proxy on loopback that counts its tunnels."""

    def __init__(self, target: str) -> None:
        self.tunnels: list[str] = []
        self._target = target.rsplit(":", 1)[1]

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.tunnels.append(head.split()[1].decode())
        there, back = await asyncio.open_connection("127.0.0.1", int(self._target))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while chunk := await source.read(65536):
                sink.write(chunk)
            sink.close()

        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)


@pytest.fixture
def certificates() -> Iterator[None]:
    """What clients trust is read anew in the test, and after it."""
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_proxy_and_certificates_of_one_s_own_are_used(
    world: Any, event_loop_thread: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: None
) -> None:
    """The server is behind TLS, with a certificate for judge.test of an authority that only this bundle knows."""
    bundle, keys = write_certificate(tmp_path, "judge.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle, keys)
    proxy = Proxy(event_loop_thread.serve(world.fake, context).url)
    monkeypatch.setenv("HTTPS_PROXY", world.run(proxy.start()))
    base = "https://judge.test/v1" if name == OPENAI else "https://judge.test"
    try:
        with pytest.raises(JudgementFailed, match=r"no connection to judge\.test.*certificate"):
            world.ask(name=name, base_url=base)
        tls_context.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
        assert world.ask(name=name, base_url=base).statements
        assert proxy.tunnels[0] == "judge.test:443"
    finally:
        world.run(proxy.stop())


def test_certificates_that_can_not_be_read_are_named(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: None
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    for path in (broken, tmp_path / "missing.pem"):
        tls_context.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        with pytest.raises(ConfigError, match="the certificates can't be read") as caught:
            world.judge(OPENAI)
        assert "SSL_CERT_FILE" in str(caught.value)
