"""Providers as they answer: each fault in the shape in which that provider sends it, over the real SDKs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.collect import collect_judgements
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Statement
from ragstone.judge.llm.account_settings import make_account
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.settings.load import load_settings
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context

from .test_calls import HEADLINE, RESPONSE, SAMPLE

ANTHROPIC = "anthropic:claude-haiku-4-5"
COMPATIBLE = "openai-compatible:llama"
PAGE = (Path(__file__).parents[3] / "docs" / "judge-providers.md").read_text(encoding="utf-8")


def refusal(body: object, status: int = 400) -> web.Response:
    return web.json_response(body, status=status)


def vllm(message: str) -> web.Response:
    return refusal({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})


def google(message: str, reason: str | None = None) -> web.Response:
    """Google answers with a list of errors."""
    error: dict[str, Any] = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    if reason:
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    return refusal([{"error": error}])


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens must be at least 1, got -186. (parameter=max_tokens, value=-186)",
        "Input length (11680) exceeds model's maximum context length (4096).",
        "This model's maximum context length is 2048 tokens. However, your request has 8800 input tokens. Please "
        "reduce the length of the input messages.",
    ],
)
def test_the_code_and_numbers_of_an_error_are_not_taken_for_a_limit(world: Any, message: str) -> None:
    world.fake.script.append(lambda _seen: vllm(message))
    judge = world.judge(COMPATIBLE)
    with pytest.raises(JudgementFailed, match="longer than the judge's window"):
        world.ask(judge)
    world.ask(judge)
    assert world.fake.seen[-1].body["max_tokens"] > 8192
    assert "max_completion_tokens" not in world.fake.seen[-1].body
    assert not any("at most" in note for note in judge.notes)


def test_google_s_lists_of_errors_are_read(world: Any) -> None:
    world.fake.always = lambda seen: google("Unknown name 'temperature'") if "temperature" in seen.body else None
    judge = world.judge(COMPATIBLE)
    assert world.ask(judge).statements
    assert any("temperature" in note for note in judge.notes)
    world.fake.always = lambda _seen: google("The model is overloaded with your words.")
    with pytest.raises(JudgementFailed, match="The model is overloaded with your words"):
        world.ask(judge)


def test_google_s_way_of_refusing_a_key_is_known(world: Any) -> None:
    message = "API key not valid. Please pass a valid API key."
    world.fake.always = lambda _seen: google(message, "API_KEY_INVALID")
    with pytest.raises(JudgeError, match="refused the API key"):
        world.ask(world.judge(COMPATIBLE, api_key="AIza-wrong-key"))


def test_embeddings_that_are_not_there_are_blamed_and_not_the_chat_model(world: Any, refuse: Any) -> None:
    world.fake.always = lambda seen: (
        refuse(404, "The model `nomic` does not exist")(seen) if seen.path.endswith("/embeddings") else None
    )
    judge = world.judge(COMPATIBLE, embeddings="nomic")
    with pytest.raises(JudgeError, match="does not know the model 'nomic'") as caught:
        world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=Call("q1")))
    assert caught.value.where == "judge.embeddings"
    assert "judge.embeddings_base_url" in str(caught.value)


def groq_failure(_seen: Any) -> web.Response:
    message = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."
    error = {"message": message, "type": "invalid_request_error", "code": "json_validate_failed"}
    return refusal({"error": {**error, "failed_generation": '{"answer":{"kind":"abstains","statements":[]}}'}})


def test_json_that_a_model_failed_to_write_is_asked_for_again(world: Any) -> None:
    world.fake.script.append(groq_failure)
    judge = world.judge(COMPATIBLE)
    assert world.ask(judge).statements
    assert len(world.fake.seen) == 2
    assert "response_format" in world.fake.seen[1].body
    assert judge.notes == world.judge(COMPATIBLE).notes


def openrouter(code: int, message: str) -> Callable[[Any], web.Response]:
    return lambda _seen: web.json_response({"error": {"code": code, "message": message}, "user_id": "u1"})


def test_an_error_in_a_reply_of_status_200_is_shown_and_tried_again(world: Any) -> None:
    world.fake.script.append(openrouter(502, "Provider returned error"))
    judge = world.judge(COMPATIBLE)
    assert world.ask(judge).statements
    world.fake.always = openrouter(502, "Provider returned error")
    with pytest.raises(JudgementFailed, match="Provider returned error"):
        world.ask(judge)


def test_an_error_beside_half_a_reply_is_one(world: Any) -> None:
    def answer(seen: Any) -> web.Response:
        reply = world.fake.completion(seen)
        reply["choices"][0] |= {"finish_reason": "error", "error": {"code": 502, "message": "upstream went away"}}
        return web.json_response(reply)

    world.fake.script.append(answer)
    assert world.ask(world.judge(COMPATIBLE)).statements
    assert len(world.fake.seen) == 2


def test_no_credit_in_a_reply_of_status_200_ends_the_run_at_once(world: Any) -> None:
    world.fake.always = openrouter(402, "Insufficient credits. Add more using https://openrouter.ai/credits")
    with pytest.raises(JudgeError, match=r"out of quota: .*Insufficient credits"):
        world.ask(world.judge(COMPATIBLE))
    assert len(world.fake.seen) == 1


def test_a_server_that_cuts_requests_off_in_silence_is_caught_by_its_usage(world: Any) -> None:
    contexts = [Context("word " * 3_000)] * 2
    statements = [Statement("s1", "It opened.")]
    world.fake.usage = {"prompt_tokens": 4096}
    judge = world.judge(COMPATIBLE)
    reasons = set()
    for size in (2, 3):  # one reason for all samples, so that a report can count them
        with pytest.raises(
            JudgementFailed, match="read only 4,096 tokens of a longer request: its window is"
        ) as failed:
            world.run(judge.support(contexts[:1] * size, statements, call=Call("q1")))
        reasons.add(failed.value.reason)
    assert len(reasons) == 1
    assert any("cuts requests off" in note for note in judge.notes)
    world.fake.usage = {"prompt_tokens": 7_900}
    world.run(judge.support(contexts, statements, call=Call("q1")))


def test_parameters_may_nest_and_belong_to_the_judge_s_identity(world: Any) -> None:
    nested = {
        "provider": {"order": ["a"], "data_collection": "deny"},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    world.fake.check = lambda *_: None  # extensions of servers, which OpenAI's types do not know
    judge = world.judge(COMPATIBLE, parameters=nested)
    world.ask(judge)
    assert {name: world.fake.seen[0].body[name] for name in nested} == nested
    other = {
        "chat_template_kwargs": {"enable_thinking": False},
        "provider": {"data_collection": "deny", "order": ["a"]},
    }
    assert world.judge(COMPATIBLE, parameters=other).identity == judge.identity
    other["provider"] = {"order": ["b"]}
    assert world.judge(COMPATIBLE, parameters=other).identity != judge.identity


def test_a_nested_parameter_is_never_left_out(world: Any) -> None:
    """It may say how the user's data are handled, and the word may stand in any complaint."""
    world.fake.check = lambda *_: None
    world.fake.always = lambda _seen: refusal({"error": {"message": "Invalid request: provider returned error"}})
    judge = world.judge(COMPATIBLE, parameters={"provider": {"data_collection": "deny"}})
    with pytest.raises(JudgementFailed, match="provider returned error"):
        world.ask(judge)
    assert all("provider" in seen.body for seen in world.fake.seen)


@pytest.mark.parametrize("name", ["model", "messages", "response_format", "stream"])
def test_what_a_request_is_made_of_is_no_parameter(world: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is not a parameter to set"):
        world.judge(COMPATIBLE, parameters={name: "x"})


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", COMPATIBLE])
def test_headers_for_a_gateway_are_sent_and_never_shown(world: Any, refuse: Any, name: str) -> None:
    headers = "X-Gateway-Key: gw-secret-0123456789\nX-Team: search"
    judge = world.judge(name, headers=headers)
    world.ask(judge)
    assert world.fake.seen[0].headers["x-gateway-key"] == "gw-secret-0123456789"
    assert world.fake.seen[0].headers["x-team"] == "search"
    world.fake.always = refuse(400, "Who is gw-secret-0123456789?")
    with pytest.raises(JudgementFailed) as caught:
        world.ask(judge)
    assert (
        "gw-secret" not in f"{caught.value} {judge.__dict__!r} {JudgeSettings(name=name, headers=SecretStr(headers))!r}"
    )


@pytest.mark.parametrize("line", ["X-Key", "X Key: a-secret-value", "X-Key: a-secret-välue", "X-Key:"])
def test_what_is_no_header_is_refused_without_being_shown(line: str) -> None:
    settings = JudgeSettings(name="openai:x", headers=f"X-Ok: 1\n{line}", api_key="k-12345678")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="line 2 is not a header") as caught:
        make_account(settings, "openai", "x", {})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["headers", "embeddings_api_key"])
def test_headers_and_keys_may_not_stand_in_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "ragstone.toml").write_text(f'[judge]\n{name} = "X-Key: value"\n')
    with pytest.raises(ConfigError, match="must not be set in a file"):
        load_settings(directory=tmp_path, environ={})


def test_headers_are_secrets_like_the_key(tmp_path: Path) -> None:
    from ragstone.pipeline.known_secrets import known_secrets

    environ = {
        "RAGSTONE_JUDGE_HEADERS": "X-Key: gw-secret-1\nX-Other: gw-secret-2",
        "RAGSTONE_EMBEDDINGS_API_KEY": "e" * 12,
    }
    settings = load_settings(directory=tmp_path, environ=environ)
    assert {"gw-secret-1", "gw-secret-2", "e" * 12} <= set(known_secrets(environ, settings))


def test_a_cost_that_a_gateway_reports_is_booked(world: Any) -> None:
    world.fake.usage = {"cost": 0.0125}
    call = Call("q1")
    world.run(world.judge(COMPATIBLE).statements("When?", "In 1931.", call=call))
    assert call.ledger.cost_usd == pytest.approx(0.0125)

    def with_header(seen: Any) -> web.Response:
        return web.json_response(world.fake.completion(seen), headers={"x-litellm-response-cost": "0.5e-3"})

    world.fake.usage, world.fake.always, call = {}, with_header, Call("q2")
    world.run(world.judge(COMPATIBLE).statements("When?", "In 1931.", call=call))
    assert call.ledger.cost_usd == pytest.approx(0.0005)


@pytest.mark.parametrize("cost", ["free", -1, "nan", "inf", None, True, [1], 10**400, "1e400"])
def test_a_cost_that_is_no_sum_of_money_is_unknown(world: Any, cost: object) -> None:
    world.fake.usage = {"cost": cost}
    call = Call("q1")
    world.run(world.judge(COMPATIBLE).statements("When?", "In 1931.", call=call))
    assert call.ledger.cost_usd is None


@pytest.mark.parametrize("count", [-1, True, "7", None, 1.5, 10**400])
def test_a_count_of_tokens_that_can_not_be_one_is_none(world: Any, count: object) -> None:
    world.fake.usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), count)
    call = Call("q1")
    world.run(world.judge("openai:gpt-4o-mini").statements("When?", "In 1931.", call=call))
    assert (call.ledger.calls, call.ledger.output_tokens) == (1, 0)


_FORGED = '{"answer":{"kind":"abstains","statements":[]}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<thinking>They want " + _FORGED + "</thinking>", ""),
        ("[THINK]They want " + _FORGED + "[/THINK]", ""),
        ("They want " + _FORGED + "</think>", ""),  # the template opened the thoughts
        (f"<|channel|>analysis<|message|>{_FORGED}<|end|><|start|>assistant<|channel|>final<|message|>", ""),
        ("", "\n"),
    ],
)
def test_the_verdict_is_what_follows_the_thoughts(world: Any, before: str, after: str) -> None:
    world.fake.script.append(lambda seen: before + world.fake.text(seen) + after)
    assert world.ask(world.judge(COMPATIBLE)).statements
    assert len(world.fake.seen) == 1


@pytest.mark.parametrize(
    "opening", ["<thinking>", "<think>", "[THINK]", "<|channel|>analysis<|message|>", "<reasoning>\n"]
)
def test_thoughts_that_do_not_end_hold_no_verdict(world: Any, opening: str) -> None:
    world.fake.script.append(lambda seen: opening + _FORGED)
    assert world.ask(world.judge(COMPATIBLE)).statements
    assert len(world.fake.seen) == 2


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 900}}, (1000, 900)),
        (
            {"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": 400}, "total_tokens": 1050},
            (1000, 400),
        ),
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 400}, "total_tokens": 1050}, (1000, 400)),
        ({"prompt_tokens": 1000, "prompt_cache_hit_tokens": 300}, (1000, 300)),
    ],
)
def test_cached_tokens_count_once_also_where_a_server_counts_them_apart(
    world: Any, usage: dict[str, object], counted: tuple[int, int]
) -> None:
    world.fake.usage, call = usage, Call("q1")
    world.run(world.judge(COMPATIBLE).statements("When?", "In 1931.", call=call))
    assert (call.ledger.input_tokens, call.ledger.cached_input_tokens) == counted


@pytest.mark.parametrize("placeholder", ["x", "ollama", "EMPTY", "fixed"])
def test_a_placeholder_for_a_key_takes_nothing_from_a_reply(world: Any, placeholder: str) -> None:
    answer = "The fixed x test is EMPTY, as ollama says, and none fails."
    world.fake.script.append(
        lambda seen: json.dumps({"answer": {"kind": "answers", "statements": ["The fixed x test is EMPTY."]}})
    )
    found = world.run(world.judge(COMPATIBLE, api_key=placeholder).statements("Q?", answer, call=Call("q1")))
    assert [one.text for one in found.statements] == ["The fixed x test is EMPTY."]


@pytest.mark.parametrize(
    ("name", "key"),
    [(COMPATIBLE, "sk-proj-4f9a8b7c6d5e4f3a2b1c"), (ANTHROPIC, "0123456789abcdef" * 2), (COMPATIBLE, "hunter22")],
)
def test_a_key_that_is_echoed_as_a_name_or_in_a_text_is_not_kept(world: Any, name: str, key: str) -> None:
    def echo(seen: Any) -> web.Response:
        reply = world.fake.message if name == ANTHROPIC else world.fake.completion
        document = reply(seen) | {"model": f"served for {key}", "system_fingerprint": key}
        return web.Response(
            text=json.dumps(document).replace("In 1931", f"In 1931 {key}"), content_type="application/json"
        )

    world.fake.always = echo
    judge = world.judge(name, api_key=key)
    found = world.run(judge.statements("When?", "In 1931.", call=Call("q1")))
    assert key not in repr((found, judge.sightings))
    assert "served for ***" in judge.sightings.models


def test_embeddings_of_another_address_get_their_own_key_and_never_the_judge_s(world: Any, key: str) -> None:
    judge = world.judge(
        "anthropic:claude-haiku-4-5",
        embeddings="nomic-embed-text",
        embeddings_base_url=f"{world.fake.url}/elsewhere/v1",
        embeddings_api_key="emb-key-0123456789",
        headers="X-Gateway-Key: gw-secret-0123456789",
    )
    world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=Call("q1")))
    seen = world.fake.embeddings[0]
    assert seen.path == "/elsewhere/v1/embeddings"
    assert seen.headers["authorization"] == "Bearer emb-key-0123456789"
    assert seen.body["model"] == "nomic-embed-text"
    assert key not in json.dumps(seen.headers)
    assert "gw-secret" not in json.dumps(seen.headers)
    assert judge.identity.embeddings == f"openai-compatible nomic-embed-text at {world.fake.url}/elsewhere/v1"


def test_without_a_key_of_their_own_embeddings_elsewhere_get_none(world: Any, key: str) -> None:
    judge = world.judge(
        COMPATIBLE, api_key=key, embeddings="nomic", embeddings_base_url=f"{world.fake.url}/elsewhere/v1"
    )
    world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=Call("q1")))
    assert key not in json.dumps(world.fake.embeddings[0].headers)
    assert key in json.dumps(world.fake.chats[0].headers)


def test_an_address_of_embeddings_without_a_model_is_refused(world: Any) -> None:
    with pytest.raises(ConfigError, match="an address for embeddings, but no model"):
        world.judge(COMPATIBLE, embeddings_base_url="http://localhost:1/v1")
    with pytest.raises(ConfigError, match=r"'judge\.embeddings_base_url' contains a credential"):
        world.judge(COMPATIBLE, embeddings="m", embeddings_base_url="http://localhost:1/v1?key=x")


def test_azure_embeddings_go_to_a_deployment_of_their_own(world: Any) -> None:
    base = f"{world.fake.url}/openai/deployments/chat?api-version=2024-10-21"
    judge = world.judge("openai:chat", base_url=base, embeddings="small")
    world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=Call("q1")))
    assert world.fake.chats[0].path == "/openai/deployments/chat/chat/completions"
    assert world.fake.embeddings[0].path == "/openai/deployments/small/embeddings"
    assert world.fake.embeddings[0].query == {"api-version": "2024-10-21"}


# What a provider says to the first request, or does with every reply. Each is in the shape of its own documentation.


def refuses(name: str, body: Callable[[str], web.Response]) -> Callable[[Any], Any]:
    return lambda seen: body(name) if name in seen.body else None


def once(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    state = {"asked": False}

    def only_once(seen: Any) -> Any:
        if state["asked"] or seen.path.endswith("/embeddings"):
            return None
        state["asked"] = True
        return answer(seen)

    return only_once


def deepseek(seen: Any) -> web.Response | None:
    if seen.body.get("response_format", {}).get("type") == "json_schema":
        message = "This response_format type is unavailable now"
        return refusal({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": "x"}})
    return None


def mistral(name: str) -> web.Response:
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}]
    return refusal({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}, 422)


def vertex(_seen: Any) -> web.Response:
    error = {"code": 429, "message": "Resource exhausted. Please try again later.", "status": "RESOURCE_EXHAUSTED"}
    return refusal([{"error": error}], 429)


def llama_cpp(_seen: Any) -> web.Response:
    return refusal({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)


SHAPES: Mapping[str, tuple[str, Callable[[Any], Any] | None]] = {
    "OpenAI": ("/v1/chat/completions", refuses("temperature", lambda name: vllm(f"Unsupported value: '{name}'"))),
    "Azure OpenAI": ("/openai/v1/chat/completions", None),
    "Anthropic": ("/v1/messages", None),
    "Gemini": ("/v1beta/openai/chat/completions", refuses("reasoning_effort", lambda n: google(f"Unknown name '{n}'"))),
    "Vertex AI": (
        "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        once(vertex),
    ),
    "Amazon Bedrock": ("/openai/v1/chat/completions", None),
    "Mistral": ("/v1/chat/completions", refuses("temperature", mistral)),
    "Groq": ("/openai/v1/chat/completions", once(groq_failure)),
    "OpenRouter": ("/api/v1/chat/completions", once(openrouter(502, "Provider returned error"))),
    "DeepSeek": ("/chat/completions", deepseek),
    "vLLM": ("/v1/chat/completions", None),
    "Ollama": ("/v1/chat/completions", None),
    "llama.cpp": ("/v1/chat/completions", once(llama_cpp)),
    "LiteLLM": ("/chat/completions", None),
}
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n.*?```toml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


def test_the_page_has_one_block_for_each_provider() -> None:
    assert BLOCKS.keys() == SHAPES.keys()


@pytest.mark.parametrize("provider", SHAPES)
def test_the_block_of_each_provider_judges_over_its_shapes(world: Any, provider: str, tmp_path: Path) -> None:
    path, behaviour = SHAPES[provider]
    (tmp_path / "ragstone.toml").write_text(BLOCKS[provider], encoding="utf-8")
    environ = {"RAGSTONE_JUDGE_API_KEY": "k-123456789", "RAGSTONE_EMBEDDINGS_API_KEY": "e-123456789"}
    settings = load_settings(directory=tmp_path, environ=environ).judge
    here = {
        name: world.fake.url + (urlsplit(address).path if address else default)
        for name, address, default in (
            ("base_url", settings.base_url, "/v1" if provider == "OpenAI" else ""),
            ("embeddings_base_url", settings.embeddings_base_url, ""),
        )
        if address or name == "base_url"
    }
    world.fake.always = behaviour
    world.fake.check = lambda *_: None  # servers' extensions, which the SDK's types do not know
    variables = {"OPENAI_API_KEY": "o-123456789", "OPENAI_BASE_URL": f"{world.fake.url}/v1"}
    judge = build_judge(settings.model_copy(update=here), golden_set=GoldenSet(()), cache=None, environ=variables)
    world.judges.append(judge)

    needs = HEADLINE | {JudgementKind.REFERENCE_MATCH}
    judgements = world.run(collect_judgements(judge, SAMPLE, RESPONSE, needs, Call("q1")))

    found = [judgements.statements, judgements.support, judgements.context_use, judgements.reverse_questions]
    assert [each.reason for each in found if isinstance(each, JudgementFailure)] == []
    assert {seen.path for seen in world.fake.chats} == {path}
