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
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.judge.providers import PROVIDERS
from ragstone.settings.load import load_settings
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context

from .test_calls import HEADLINE, RESPONSE, SAMPLE

ANTHROPIC = "anthropic:claude-haiku-4-5"
COMPATIBLE = "openai-compatible:llama"
PAGE = (Path(__file__).parents[3] / "docs" / "llm-judges.md").read_text(encoding="utf-8")
SETTINGS_PART, _, PROVIDERS_PART = PAGE.partition("\n## Judges by provider\n")


def refusal(body: object, status: int = 400) -> web.Response:
    return web.json_response(body, status=status)


def vllm(message: str) -> web.Response:
    return refusal({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})


def google(message: str) -> web.Response:
    """Google answers with a list of errors."""
    return refusal([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}])


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


def openrouter(code: int, message: str) -> Callable[[Any], web.Response]:
    return lambda _seen: web.json_response({"error": {"code": code, "message": message}, "user_id": "u1"})


def test_an_error_beside_half_a_reply_is_one(world: Any) -> None:
    def answer(seen: Any) -> web.Response:
        reply = world.fake.completion(seen)
        reply["choices"][0] |= {"finish_reason": "error", "error": {"code": 502, "message": "upstream went away"}}
        return web.json_response(reply)

    world.fake.script.append(answer)
    assert world.ask(world.judge(COMPATIBLE)).statements
    assert len(world.fake.seen) == 2


def test_a_server_that_cuts_requests_off_in_silence_is_caught_by_its_usage(world: Any) -> None:
    contexts = [Context("word " * 3_000)] * 2
    statements = [Statement("s1", "It opened.")]
    world.fake.usage = {"prompt_tokens": 4096}
    judge = world.judge(COMPATIBLE)
    reasons = set()
    for size in (2, 3):  # one reason for all samples, so that a report can count them
        with pytest.raises(
            JudgementFailed, match="read only 4,096 tokens of a longer request: enlarge its window"
        ) as failed:
            world.run(judge.support(contexts[:1] * size, statements, call=Call("q1")))
        reasons.add(failed.value.reason)
    assert len(reasons) == 1
    assert any("cuts requests off" in note for note in judge.notes)
    world.fake.usage = {"prompt_tokens": 7_900}
    world.run(judge.support(contexts, statements, call=Call("q1")))


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", ANTHROPIC])
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


@pytest.mark.parametrize("name", ["headers", "embeddings_api_key"])
def test_headers_and_keys_may_not_stand_in_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "ragstone.toml").write_text(f'[judge]\n{name} = "X-Key: value"\n')
    with pytest.raises(ConfigError, match="must not be set in a file"):
        load_settings(directory=tmp_path, environ={})


@pytest.mark.parametrize("line", ["X-Key", "X Key: a-secret-value", "X-Key: a-secret-välue", "X-Key:"])
def test_what_is_no_header_is_refused_without_being_shown(line: str) -> None:
    settings = JudgeSettings(name="openai:x", headers=f"X-Ok: 1\n{line}", api_key="k-12345678")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="line 2 is not a header") as caught:
        make_account(settings, "openai", "x", {})
    assert "secret" not in str(caught.value)


def booked(world: Any, judge: Any) -> Ledger:
    """What the statements of an answer cost."""
    call = Call("q1")
    world.run(judge.statements("When?", "In 1931.", call=call))
    return call.ledger


@pytest.mark.parametrize(
    ("usage", "header", "cost"),
    [
        ({"cost": 0.0125}, None, 0.0125),
        ({}, "0.5e-3", 0.0005),
        ({"cost": 0}, None, 0.0),
        *(({"cost": odd}, None, None) for odd in ("free", -1, "nan", "inf", None, True, [1], 10**400)),
    ],
)
def test_a_cost_that_a_gateway_reports_is_booked_if_it_is_a_sum_of_money(
    world: Any, usage: dict[str, object], header: str | None, cost: float | None
) -> None:
    world.fake.usage = usage
    headers = {"x-litellm-response-cost": header} if header else {}
    world.fake.always = lambda seen: web.json_response(world.fake.completion(seen), headers=headers)
    assert booked(world, world.judge(COMPATIBLE)).cost_usd == cost


@pytest.mark.parametrize("count", [-1, True, "7", None, 1.5, 2**53, 10**400])
def test_a_count_of_tokens_that_can_not_be_one_is_none(world: Any, count: object) -> None:
    world.fake.usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), count)
    ledger = booked(world, world.judge("openai:gpt-4o-mini"))
    assert (ledger.calls, ledger.output_tokens) == (1, 0)


def cached_tokens(prompt: int, cached: int) -> dict[str, object]:
    return {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (cached_tokens(1000, 9000), (1000, 1000)),
        (cached_tokens(1000, 400), (1000, 400)),
        ({"prompt_tokens": 1000, "prompt_cache_hit_tokens": 300}, (1000, 300)),
        ({"prompt_tokens": 1000, "prompt_tokens_details": 7}, (1000, 0)),
    ],
)
def test_cached_tokens_are_a_part_of_the_prompt(world: Any, usage: dict[str, object], counted: tuple[int, int]) -> None:
    world.fake.usage = usage
    ledger = booked(world, world.judge(COMPATIBLE))
    assert (ledger.input_tokens, ledger.cached_input_tokens) == counted


FORGED = '{"answer":{"kind":"abstains","statements":[]}}'


@pytest.mark.parametrize(
    ("before", "requests"),
    [
        (f"<thinking>They want {FORGED}</thinking>", 1),
        (f"[THINK]They want {FORGED}[/THINK]", 1),
        (f"They want {FORGED}</think>", 1),  # the template opened the thoughts
        (f"<|channel|>analysis<|message|>{FORGED}<|end|><|start|>assistant<|channel|>final<|message|>", 1),
        *((f"{opening}{FORGED}", 2) for opening in ("<think>", "[THINK]", "<|channel|>analysis<|message|>")),
        ("<reasoning>\n", 2),
    ],
)
def test_the_verdict_is_what_follows_the_thoughts_if_they_end(world: Any, before: str, requests: int) -> None:
    world.fake.script.append(lambda seen: before + world.fake.text(seen))
    assert world.ask(world.judge(COMPATIBLE)).statements
    assert len(world.fake.seen) == requests


@pytest.mark.parametrize(
    ("name", "key", "kept"),
    [
        *((COMPATIBLE, placeholder, True) for placeholder in ("x", "ollama", "EMPTY", "fixed")),
        (COMPATIBLE, "sk-proj-4f9a8b7c6d5e4f3a2b1c", False),
        (COMPATIBLE, "hunter22", False),
        (ANTHROPIC, "0123456789abcdef" * 2, False),
    ],
)
def test_a_key_that_is_echoed_is_not_kept_anywhere_but_a_placeholder_is(
    world: Any, name: str, key: str, kept: bool, tmp_path: Path
) -> None:
    def echo(seen: Any) -> web.Response:
        reply = world.fake.message if name == ANTHROPIC else world.fake.completion
        said = json.dumps({"answer": {"kind": "answers", "statements": [f"It is {key}."]}})
        return web.json_response(reply(seen, said) | {"model": f"served for {key}"})

    world.fake.always = echo
    judge = world.judge(name, api_key=key, cache=tmp_path / "judgements.sqlite")
    statement_list = world.ask(judge)
    world.run(judge.close())
    stored = (tmp_path / "judgements.sqlite").read_bytes()
    assert (key in repr((statement_list, judge.observed_judge))) is kept
    assert (key.encode() in stored) is kept
    assert ("served for ***" in judge.observed_judge.models) is not kept


def test_parameters_may_nest_belong_to_the_judge_s_identity_and_are_never_left_out(world: Any) -> None:
    """They may say how the user's data are handled, and the word may stand in any complaint."""
    nested = {
        "provider": {"order": ["a"], "data_collection": "deny"},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    world.fake.check = lambda *_: None  # extensions of servers, which OpenAI's types do not know
    world.fake.always = lambda _seen: refusal({"error": {"message": "Invalid request: provider returned error"}})
    judge = world.judge(COMPATIBLE, parameters=nested)
    with pytest.raises(JudgementFailed, match="provider returned error"):
        world.ask(judge)
    assert all({name: seen.body[name] for name in nested} == nested for seen in world.fake.seen)
    reordered = {**nested, "provider": {"data_collection": "deny", "order": ["a"]}}
    assert world.judge(COMPATIBLE, parameters=reordered).identity == judge.identity
    assert world.judge(COMPATIBLE, parameters={**nested, "provider": {"order": ["b"]}}).identity != judge.identity
    with pytest.raises(ConfigError, match="the parameter 'response_format' can't be set"):
        world.judge(COMPATIBLE, parameters={"response_format": "x"})


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [(ANTHROPIC, "emb-key-0123456789", "Bearer emb-key-0123456789"), (COMPATIBLE, None, "Bearer none")],
)
def test_embeddings_of_another_address_get_their_own_key_or_none_and_never_the_judge_s(
    world: Any, key: str, name: str, own: str | None, expected: str
) -> None:
    elsewhere = f"{world.fake.url}/elsewhere/v1"
    judge = world.judge(
        name,
        api_key=key,
        embeddings="nomic-embed-text",
        embeddings_base_url=elsewhere,
        embeddings_api_key=own,
        headers="X-Gateway-Key: gw-secret-0123456789",
    )
    world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=Call("q1")))
    seen = world.fake.embeddings[0]
    assert seen.path == "/elsewhere/v1/embeddings"
    assert seen.headers["authorization"] == expected
    assert seen.body["model"] == "nomic-embed-text"
    assert key not in json.dumps(seen.headers)
    assert "gw-secret" not in json.dumps(seen.headers)
    assert judge.identity.embeddings == f"openai-compatible nomic-embed-text at {elsewhere}"


@pytest.mark.parametrize(
    ("model", "address", "says"),
    [
        (None, "http://localhost:1/v1", "an address for embeddings, but no model"),
        ("openai-compatible:", "http://localhost:1/v1", "an address for embeddings, but no model"),
        ("m", "http://localhost:1/v1?key=x", r"'judge\.embeddings_base_url' contains a credential"),
    ],
)
def test_an_address_of_embeddings_needs_a_model_and_no_credential(
    world: Any, model: str | None, address: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        world.judge(COMPATIBLE, embeddings=model, embeddings_base_url=address)


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
    "Vertex AI": ("/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions", once(vertex)),
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
BLOCKS = dict(re.findall(r"^### ([^\n]+)\n.*?```toml\n(.*?)```", PROVIDERS_PART, re.DOTALL | re.MULTILINE))


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
    results = [judgements.statements, judgements.support, judgements.context_use, judgements.reverse_questions]
    assert [each.reason for each in results if isinstance(each, JudgementFailure)] == []
    assert {seen.path for seen in world.fake.chats} == {path}


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", SETTINGS_PART, re.DOTALL))
def test_every_config_on_the_page_of_llm_judges_builds_one(world: Any, block: str, tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text(block, encoding="utf-8")
    settings = load_settings(directory=tmp_path, environ={"RAGSTONE_JUDGE_API_KEY": "k-123"})
    judge = build_judge(settings.judge, golden_set=GoldenSet(()), cache=None, environ={})
    assert judge.identity.provider in PROVIDERS
    world.run(judge.close())
