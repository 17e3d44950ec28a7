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

import pytest
from aiohttp import web

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import parse_address
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.llm.provider import Busy
from ragstone.judge.llm.transport import encoded, retry_after_s, room_of, status_error
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


@pytest.mark.parametrize(("asked", "taken"), [(OPENAI, "max_tokens"), (COMPATIBLE, "max_completion_tokens")])
def test_the_other_name_of_the_output_limit_is_tried(world: Any, asked: str, taken: str) -> None:
    world.fake.always = refusing("max_completion_tokens" if taken == "max_tokens" else "max_tokens")
    world.ask(name=asked)
    assert taken in world.fake.seen[-1].body


def test_a_smaller_limit_of_output_is_kept_to(world: Any) -> None:
    def answer(seen: Any) -> web.Response | None:
        if seen.body["max_tokens"] > 1024:
            return bad_request("max_tokens is too large: 2112. This model supports at most 1024 completion tokens")(
                seen
            )
        return None

    world.fake.always = answer
    judge = world.judge(COMPATIBLE)
    world.ask(judge)
    assert world.fake.seen[-1].body["max_tokens"] == 1024
    assert any("1024" in note for note in judge.notes)


def test_a_parameter_of_the_user_s_is_sent_and_left_out_when_refused(world: Any) -> None:
    world.fake.always = refusing("reasoning_effort")
    judge = world.judge(OPENAI, parameters={"reasoning_effort": "low"})
    world.ask(judge)
    assert world.fake.seen[0].body["reasoning_effort"] == "low"
    assert "reasoning_effort" not in world.fake.seen[-1].body
    assert ("reasoning_effort", "low") in judge.identity.parameters


@pytest.mark.parametrize(
    ("refused", "mode"),
    [
        ((), "json_schema"),
        (("json_schema",), "tool"),
        (("json_schema", "tool"), "json_object"),
        (("json_schema", "tool", "json_object"), "prompt"),
    ],
)
def test_a_server_without_strict_modes_gets_the_next_best(world: Any, refused: tuple[str, ...], mode: str) -> None:
    def mode_of(body: Any) -> str:
        return body.get("response_format", {}).get("type") or ("tool" if "tools" in body else "prompt")

    def answer(seen: Any) -> web.Response | None:
        now = mode_of(seen.body)
        complaints = {
            "json_schema": "response_format of type json_schema is not supported",
            "tool": "tool_choice is not supported",
            "json_object": "'response_format' is not supported by this model",
        }
        return bad_request(complaints[now])(seen) if now in refused else None

    world.fake.always = answer
    found = world.ask(name=COMPATIBLE)
    assert mode_of(world.fake.seen[-1].body) == mode
    assert len(world.fake.seen) == len(refused) + 1
    assert found.statements


def test_anthropic_falls_back_to_a_forced_tool_and_then_to_the_prompt(world: Any) -> None:
    def answer(seen: Any) -> web.Response | None:
        if "output_config" in seen.body:
            return bad_request("output_config: Extra inputs are not permitted")(seen)
        if "tools" in seen.body:
            return bad_request("Thinking may not be enabled when tool_choice forces tool use.")(seen)
        return None

    world.fake.always = answer
    judge = world.judge(ANTHROPIC)
    assert world.ask(judge).statements
    assert len(world.fake.seen) == 3
    assert "JSON schema" in world.fake.seen[-1].data
    assert len(judge.notes) == 2


def test_many_calls_at_once_learn_a_model_s_ways_once(world: Any) -> None:
    world.fake.always = refusing("temperature", "max_completion_tokens")
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
def test_a_limit_that_stays_reached_ends_the_run_and_says_how_to_go_on(
    world: Any, refuse: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("ragstone.judge.llm.scheduler.PATIENCE_S", 0.5)
    monkeypatch.setattr("ragstone.judge.llm.allowance._PROBES_S", (0.2,))
    world.fake.always = refuse(429, "not now")
    with pytest.raises(JudgeError, match=r"refused every call for .* s: HTTP 429: not now") as caught:
        world.ask(name=name)
    assert "--resume" in str(caught.value)
    assert len(world.fake.seen) < 12


def limited(body: Any, headers: Mapping[str, str] | None = None) -> Exception:
    account = make_account(JudgeSettings(), "openai", "m", {"OPENAI_API_KEY": "k" * 20})
    return status_error(account, 429, headers or {}, body, None)


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
    assert fault.over_limit
    assert fault.retry_after_s == says
    told = limited(body, {"retry-after": "2"})
    assert isinstance(told, Busy)
    assert told.retry_after_s == 2.0, "a header counts first"


def test_a_quota_of_a_day_is_not_waited_for() -> None:
    violations = [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}]
    body = {"error": {"message": "Quota.", "details": [{"violations": violations}, {"retryDelay": "20s"}]}}
    assert isinstance(limited(body), JudgeError)


@pytest.mark.parametrize(
    ("words", "tokens"), [("on tokens per min (TPM)", True), ("on requests per min", False), ("", None)]
)
def test_what_is_limited_is_read_from_the_words(words: str, tokens: bool | None) -> None:
    fault = limited({"error": {"message": f"Rate limit reached {words}."}})
    assert isinstance(fault, Busy)
    assert fault.by_tokens is tokens


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


def test_a_judge_that_rejects_everything_ends_the_run(world: Any, refuse: Any) -> None:
    world.fake.always = refuse(400, "Unknown model family")
    judge = world.judge(COMPATIBLE)

    async def many() -> list[object]:
        calls = [judge.statements("When?", f"In {year}.", call=Call(str(year))) for year in range(300)]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = world.run(many())
    assert any(isinstance(outcome, JudgeError) for outcome in outcomes)
    assert len(world.fake.seen) < 150


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


def test_what_is_left_of_the_limits_is_read_from_both_providers_headers() -> None:
    room = room_of({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"})
    assert room is not None
    assert (room.requests, room.requests_reset_s) == (0, 62.5)
    room = room_of(
        {"anthropic-ratelimit-tokens-remaining": "12", "anthropic-ratelimit-tokens-reset": "1999-01-01T00:00:00Z"}
    )
    assert room is not None
    assert (room.tokens, room.tokens_reset_s) == (12, 0.0)
    odd = room_of({"x-ratelimit-remaining-requests": "-1; drop"})
    assert odd is not None
    assert odd.requests is None
    assert room_of({"x-ratelimit-remaining-requests": "9" * 5_000, "x-ratelimit-reset-requests": "9" * 5_000})
    assert room_of({}) is None


@pytest.mark.parametrize("name", ALL)
def test_the_key_is_in_no_log_error_record_cache_or_chain(
    world: Any,
    refuse: Any,
    key: str,
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After every kind of failure, with a server that echoes the key in all it says, and all loggers wide open."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("ragstone.judge.llm.scheduler.PATIENCE_S", 0.1)
    monkeypatch.setattr("ragstone.judge.llm.allowance._PROBES_S", (0.1,))

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
        judge = world.judge(name, cache=cache, timeout_s=0.15, api_key=key)
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
