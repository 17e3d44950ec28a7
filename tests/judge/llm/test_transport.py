"""What goes over the wire to each provider, and what each way of failing says to the person who hits it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import ssl
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import parse_address, random_looking
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.llm.provider import Busy
from ragstone.judge.llm.scheduler import Clock
from ragstone.judge.llm.transport import connection_error, encoded, retry_after_s, status_error
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


@pytest.mark.parametrize("name", ["temperature", "prompt_cache_key"])
def test_a_parameter_that_a_model_refuses_is_left_out_from_then_on(world: Any, name: str) -> None:
    world.fake.always = refusing(name)
    judge = world.judge(OPENAI)
    world.ask(judge)
    world.ask(judge)
    assert [name in seen.body for seen in world.fake.seen] == [True, False, False]
    assert any(name in note for note in judge.notes)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (OPENAI, "Unsupported parameter: 'max_completion_tokens' is not supported with this model."),
        (COMPATIBLE, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        (COMPATIBLE, "max_tokens is too large: 9216. This model supports at most 1024 completion tokens"),
        (
            COMPATIBLE,
            "'max_tokens' or 'max_completion_tokens' is too large: 9216. This model's maximum context length is 8192 "
            "tokens and your request has 1500 input tokens (9216 > 8192 - 1500).",
        ),
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


def test_a_parameter_of_the_user_s_is_sent_and_left_out_when_refused(world: Any) -> None:
    world.fake.always = refusing("reasoning_effort")
    judge = world.judge(OPENAI, parameters={"reasoning_effort": "low"})
    world.ask(judge)
    assert world.fake.seen[0].body["reasoning_effort"] == "low"
    assert "reasoning_effort" not in world.fake.seen[-1].body
    assert ("reasoning_effort", "low") in judge.identity.parameters


REFUSED_SCHEMAS = {
    "OpenAI": (OPENAI, 400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"),
    "too large": (OPENAI, 400, "Invalid schema for response_format 'support': Expected at most 1000 enum values"),
    "Gemini": (COMPATIBLE, 400, "The specified schema produces a constraint that has too many states for serving."),
    "DeepSeek": (COMPATIBLE, 400, "This response_format type is unavailable now"),
    "OpenRouter": (COMPATIBLE, 404, "No endpoints found that can handle the requested parameters."),
    "vLLM": (COMPATIBLE, 500, "Failed to compile the grammar of the request"),
    "not implemented": (COMPATIBLE, 501, "response_format is not implemented"),
    "Anthropic": (ANTHROPIC, 400, "output_config.format: Extra inputs are not permitted"),
    "Anthropic's grammar": (ANTHROPIC, 400, "output_config.format.schema: The compiled grammar is too large"),
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

    async def many() -> None:
        await asyncio.gather(*(judge.statements("When?", f"In {n}.", call=Call(str(n))) for n in range(20)))

    world.run(many())
    assert len(world.fake.seen) <= 20 + 4
    assert "JSON schema:" in world.fake.seen[-1].data
    assert judge.notes == ("the model has no JSON-schema mode; the schema is in the prompt",)
    assert judge.sightings.ways == {"prompt"}


def test_a_refusal_in_a_reply_of_status_200_is_heard_too(world: Any) -> None:
    body = {"error": {"code": 404, "message": "No endpoints found that can handle the requested parameters."}}
    world.fake.always = lambda seen: web.json_response(body) if "response_format" in seen.body else None
    assert world.ask(name=COMPATIBLE).statements


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


def test_many_calls_at_once_learn_a_model_s_ways_once(world: Any) -> None:
    world.fake.always = refusing("temperature", "prompt_cache_key")
    judge = world.judge(OPENAI)

    async def many() -> None:
        await asyncio.gather(
            *(judge.statements("When?", f"In {year}.", call=Call(str(year))) for year in range(1900, 1940))
        )

    world.run(many())
    assert len(judge.notes) == 2
    assert sum("temperature" not in seen.body for seen in world.fake.seen) >= 40


ENDS = [
    (OPENAI, 401, "Incorrect API key provided", None, "refused the API key", "RAGSTONE_JUDGE_API_KEY"),
    (COMPATIBLE, 401, "Incorrect API key provided", None, "refused the API key", "RAGSTONE_JUDGE_API_KEY"),
    (ANTHROPIC, 403, "This key has been revoked", None, "refused the API key", "RAGSTONE_JUDGE_API_KEY"),
    (OPENAI, 404, "The model `gpt-9` does not exist", None, "does not know the model", "judge.base_url"),
    (ANTHROPIC, 404, "The model `claude` does not exist", None, "does not know the model", "judge.base_url"),
    (OPENAI, 429, "You exceeded your current quota", "insufficient_quota", "out of quota", "--resume"),
    (COMPATIBLE, 402, "Payment required", None, "out of quota", "--resume"),
    (ANTHROPIC, 400, "You have reached your specified API usage limits", None, "out of quota", "--resume"),
    (ANTHROPIC, 400, "Your credit balance is too low to access the API", None, "out of quota", "--resume"),
]


@pytest.mark.parametrize(("name", "status", "message", "code", "says", "hint"), ENDS)
def test_an_account_that_can_not_judge_ends_the_run_with_what_to_do(
    world: Any, refuse: Any, name: str, status: int, message: str, code: str | None, says: str, hint: str
) -> None:
    world.fake.always = refuse(status, message, code)
    with pytest.raises(JudgeError, match=says) as caught:
        world.ask(name=name)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 5
    assert len(world.fake.seen) == 1


def test_a_misspelt_model_gets_the_name_that_was_meant(world: Any, refuse: Any) -> None:
    world.fake.always = refuse(404, "The model does not exist", None)
    with pytest.raises(JudgeError, match="Did you mean 'openai:gpt-4o-mini'"):
        world.ask(name="openai:gpt4o-mini")


def test_a_dead_proxy_is_called_a_proxy(world: Any) -> None:
    async def call() -> None:
        async with aiohttp.ClientSession() as session, session.get("https://api.test/", proxy="http://127.0.0.1:9"):
            pass

    account = make_account(JudgeSettings(name=OPENAI), "openai", "gpt-4o-mini", {"OPENAI_API_KEY": "sk-x"})
    with pytest.raises(aiohttp.ClientProxyConnectionError) as caught:
        world.run(call())
    fault = connection_error(account, caught.value)
    assert "no connection to the proxy 127.0.0.1:9 that HTTPS_PROXY or HTTP_PROXY names" in str(fault)


@pytest.mark.parametrize(("name", "status"), [(OPENAI, 301), (ANTHROPIC, 307), (COMPATIBLE, 308)])
def test_a_redirect_is_not_followed_with_the_key(world: Any, name: str, status: int) -> None:
    headers = {"Location": "https://elsewhere.test/v1?x=1"}
    world.fake.always = lambda _seen: web.Response(status=status, headers=headers)
    with pytest.raises(JudgeError, match=r"redirects to https://elsewhere\.test/v1;"):
        world.ask(name=name)
    assert len(world.fake.seen) == 1


@pytest.mark.parametrize(
    ("name", "status"), [(OPENAI, 503), (ANTHROPIC, 529), (COMPATIBLE, 500), (OPENAI, 502), (ANTHROPIC, 408)]
)
def test_what_may_pass_is_tried_again_and_then_fails_this_judgement_alone(
    world: Any, refuse: Any, name: str, status: int
) -> None:
    world.fake.always = refuse(status, "not now")
    with pytest.raises(JudgementFailed, match=rf"no reply after 5 attempts: HTTP {status}"):
        world.ask(name=name)
    assert len(world.fake.seen) == 5


@pytest.mark.parametrize("name", ALL)
def test_a_limit_that_stays_reached_ends_the_run_and_says_how_to_go_on(world: Any, refuse: Any, name: str) -> None:
    world.fake.always = refuse(429, "not now")
    with pytest.raises(JudgeError, match=r"refused every call for 1 s: HTTP 429: not now") as caught:
        world.ask(name=name, patience_s=1.0, clock=Clock())
    assert "--resume" in str(caught.value)
    assert len(world.fake.seen) < 12


def limited(body: Any, headers: Mapping[str, str] | None = None, *, status: int = 429) -> Exception:
    account = make_account(JudgeSettings(), "openai", "m", {"OPENAI_API_KEY": "k" * 20})
    return status_error(account, status, headers or {}, body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"error": {"code": 429, "message": "Quota exceeded.\nPlease retry in 47.1s."}}, 47.1),
        ([{"error": {"details": [{"@type": "RetryInfo", "retryDelay": "31s"}], "message": "Quota."}}], 31.0),
        ({"error": {"message": "Rate limit reached on tokens per min (TPM). Please try again in 6m0s."}}, 360.0),
        ({"error": {"message": "Rate limit reached. Please try again in 120ms."}}, 0.12),
        ({"error": {"message": "Please retry after 6 seconds."}}, 6.0),
        ({"error": {"message": "Please retry after lunch, in 999999999999 ways."}}, None),
        ({"error": {"message": "Slow down.", "details": [{"retryDelay": {"s": 3}}]}}, None),
    ],
)
def test_the_wait_that_a_body_asks_for_is_read(body: Any, says: float | None) -> None:
    fault = limited(body)
    assert isinstance(fault, Busy)
    assert fault.retry_after_s == says
    told = limited(body, {"retry-after": "2"})
    assert isinstance(told, Busy)
    assert told.retry_after_s == 2.0, "a header counts first"


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
        ("correcthorsebatterystapl", True),
        ("correcthorsebatterystap", False),
        ("correct horse battery staple", False),
        ("12345678", False),
    ],
)
def test_a_secret_is_masked_in_names_if_no_text_has_it_by_chance(secret: str, is_random: bool) -> None:
    assert bool(random_looking(secret)) is is_random


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for gpt-4o-mini. Add a payment method at https://platform.openai.com/account/billing.",
        "You exceeded your current quota, please retry in 12 s.",
        "Requests have exceeded the token rate limit of your current pricing tier. Please retry after 6 seconds.",
    ],
)
def test_a_rate_limit_is_not_taken_for_an_empty_account(world: Any, refuse: Any, message: str) -> None:
    world.fake.script.append(refuse(429, message, "rate_limit_exceeded", Retry_After="1"))
    assert world.ask(name=OPENAI).statements
    assert len(world.fake.seen) == 2


@pytest.mark.parametrize("name", ALL)
def test_one_bad_moment_is_got_over(world: Any, refuse: Any, name: str) -> None:
    world.fake.script.extend([refuse(500, "oops"), refuse(429, "slow down", Retry_After="1")])
    assert world.ask(name=name).statements
    assert len(world.fake.seen) == 3


@pytest.mark.parametrize("name", ALL)
def test_a_page_that_is_no_reply_is_tried_again(world: Any, name: str) -> None:
    page, json_type = "<html>Please log in</html>", "application/json"
    for text, kind in ((page, "text/html"), ("null", json_type), ('{"choices": [', json_type)):
        world.fake.script.append(lambda _seen, text=text, kind=kind: web.Response(text=text, content_type=kind))
    world.fake.script.append(lambda _seen: web.json_response({"choices": [], "content": None}))
    assert world.ask(name=name).statements
    assert len(world.fake.seen) == 5


def test_a_request_that_is_too_long_or_filtered_fails_this_judgement_alone(world: Any, refuse: Any) -> None:
    judge = world.judge(OPENAI)
    for status, message, code, says in (
        (400, "This model's maximum context length is 8192 tokens", "context_length_exceeded", "window"),
        (400, "The response was filtered", "content_filter", "content filter"),
        (403, "Your input was flagged by the provider", None, "content filter"),
    ):
        world.fake.script.append(refuse(status, message, code))
        with pytest.raises(JudgementFailed, match=says):
            world.ask(judge)
    assert world.ask(judge).statements


def test_a_reply_that_hangs_is_timed_out_and_asked_again(world: Any) -> None:
    async def hang(_seen: Any) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    world.fake.script.append(hang)
    assert world.ask(name=OPENAI, timeout_s=0.3).statements
    assert len(world.fake.seen) == 2


@pytest.mark.parametrize("name", ALL)
def test_an_address_where_nobody_listens_is_named(world: Any, name: str) -> None:
    with pytest.raises(JudgementFailed, match=r"no connection to 127\.0\.0\.1"):
        world.ask(name=name, base_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    "url", ["https://user:secret@host/v1", "https://host/v1?api-key=secret", "https://host/v1?sig=secret"]
)
def test_a_credential_in_the_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://host/v1", "localhost:8080", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(url)


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
    world: Any,
    refuse: Any,
    key: str,
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After every kind of failure, with a server that echoes the key in all it says, and all loggers wide open."""
    caplog.set_level(logging.DEBUG)

    async def hang(_seen: Any) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    kinds: list[Any] = [refuse(status, f"Bad key {key}, sent as Bearer {key}") for status in (400, 401, 403, 404, 500)]
    kinds += [refuse(429, f"key {key} is busy"), refuse(429, f"{key} has no quota", "insufficient_quota"), hang]
    kinds += [lambda _seen: f"My key is {key}", lambda _seen: web.Response(text=f"<html>{key}</html>")]
    said = io.StringIO()
    for at, kind in enumerate(kinds):
        world.fake.always = kind
        cache = tmp_path / f"{at}.sqlite"
        judge = world.judge(name, cache=cache, timeout_s=0.15, patience_s=0.1, api_key=key)
        try:
            world.ask(judge)
        except (JudgeError, JudgementFailed) as error:
            said.write("".join(traceback.TracebackException.from_exception(error, capture_locals=False).format()))
            chain: BaseException | None = error
            while chain is not None:
                said.write(f"{chain!r} {chain.__dict__!r}")
                chain = chain.__cause__ or chain.__context__
        else:
            pytest.fail("nothing failed")
        said.write(f"{judge!r} {judge.identity!r} {judge.notes!r} {judge.__dict__!r}")
        world.run(judge.close())
        said.write(cache.read_bytes().decode("latin-1"))
    assert key not in said.getvalue()
    assert key not in caplog.text


@pytest.mark.parametrize("text", ["plain", 'quo"ted\n', "über 橋 😀", "lone \ud800 surrogate", "\x00\x1f"])
def test_bodies_are_json_whatever_the_text(text: str) -> None:
    read = json.loads(encoded({"a": [text], "b": 1.5, "c": None, "d": True}))
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
def secure(event_loop_thread: Any, world: Any, tmp_path: Path) -> tuple[Any, Path]:
    """The server behind TLS, with a certificate for judge.test of an authority that only its bundle knows."""
    bundle, keys = write_certificate(tmp_path, "judge.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle, keys)
    return event_loop_thread.serve(world.fake, context), bundle


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_proxy_and_a_ca_bundle_of_one_s_own_are_used(
    world: Any, secure: tuple[Any, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, bundle = secure
    proxy = Proxy(fake.url)
    monkeypatch.setenv("HTTPS_PROXY", world.run(proxy.start()))
    base = "https://judge.test/v1" if name == OPENAI else "https://judge.test"

    try:
        assert world.ask(name=name, base_url=base, ca_bundle=str(bundle)).statements
        assert proxy.tunnels[0] == "judge.test:443"
        with pytest.raises(JudgementFailed, match=r"no connection to judge\.test.*certificate"):
            world.ask(name=name, base_url=base)
    finally:
        world.run(proxy.stop())


def test_a_ca_bundle_that_is_none_is_named(world: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match="CA bundle"):
            world.judge(OPENAI, ca_bundle=str(path))


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_key_that_the_server_repeats_is_in_no_judgement_and_not_in_the_cache(
    world: Any, tmp_path: Path, key: str, name: str
) -> None:
    world.fake.fill = lambda _schema, _prompt: {"answer": {"kind": "answers", "statements": [f"The key is {key}."]}}
    cache = tmp_path / "judgements.sqlite"
    judge = world.judge(name, cache=cache)
    found = world.ask(judge)
    world.run(judge.close())
    assert [statement.text for statement in found.statements] == ["The key is ***."]
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
