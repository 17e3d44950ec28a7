"""A loopback server that speaks both providers' wire formats, and judges that talk to it through the real SDKs."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import struct
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import pytest
from aiohttp import web
from pydantic import TypeAdapter

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import StatementList
from ragstone.judge.llm.assembly import assemble
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.scheduler import Clock
from ragstone.judge.names import split_name
from ragstone.judge.protocol import Call, Surroundings, ignore_secret
from ragstone.settings.settings import JudgeSettings

T = TypeVar("T")
KEY = "sk-test-0123456789abcdefghijklmnop"
Fill = Callable[[Mapping[str, Any], str], Any]
ASKED = re.compile(r"^Asked for: (.*)\.$", re.MULTILINE)
PLANTED = re.compile("ferry carries|signed the treaty of|was rebuilt for|brewery from|feet long")
"""Words of each statement that runs plant to test their judge."""


def asked_of(data: str) -> dict[str, list[str]]:
    """The ids of each group that a request asks for; of a list that the model is to make itself, ["*"]."""
    lines = ASKED.findall(data)
    groups = [part.partition(": ") for part in lines[-1].split("; ")] if lines else []
    return {
        name: ["*"] if what.startswith("list them") else [] if what == "none" else what.split(", ")
        for name, _, what in groups
    }


def contexts_of(data: str) -> list[str]:
    """The ids of the contexts that a request shows."""
    return re.findall(r"^<<<context (c\d+) ", data, re.MULTILINE)


def quote_of(data: str, context: str) -> str:
    """The first words of a context that a request shows."""
    match = re.search(rf"^<<<context {context} \d+>>>\n(.*?)\n<<<", data, re.MULTILINE | re.DOTALL)
    return " ".join(match.group(1).split()[:6])[:200] if match else ""


def item_of(schema: Mapping[str, Any], item_id: str, prompt: str) -> dict[str, Any]:
    """The item for one id: every context is useful, and the first one has whatever is asked for."""
    first = contexts_of(prompt)[:1]
    values = {
        "id": "r1" if item_id == "*" else item_id,
        "evidence": first,
        "found_in": first,
        "against": [],
        "needed": [1],
        "quote": quote_of(prompt, first[0]) if first else "",
        "text": f"A sentence for {'r1' if item_id == '*' else item_id}.",
    }
    if "evidence" in schema["properties"] and PLANTED.search(prompt):
        values |= {"evidence": [], "quote": "", "verdict": "unsupported"}
    return {
        name: values[name] if name in values else fill_in(inner, prompt, name)
        for name, inner in schema["properties"].items()
    }


def fill_in(schema: Mapping[str, Any], prompt: str, name: str = "") -> Any:
    """The smallest reply that does what is asked: the first of each enum, one item in each list, one for each id."""
    asked = asked_of(prompt)
    if name in asked:
        return [item_of(schema["items"], item_id, prompt) for item_id in asked[name]]
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {key: fill_in(inner, prompt, key) for key, inner in schema["properties"].items()}
    if schema["type"] == "array":
        return [fill_in(schema["items"], prompt, name)]
    if schema["type"] == "integer":
        return 1
    return f"A sentence for {name}."


@dataclass
class Seen:
    """A request that reached the server."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By name in lower case."""
    body: Any

    @property
    def data(self) -> str:
        """What the model is given besides the static part."""
        return str(self.body["messages"][-1]["content"])

    @property
    def schema(self) -> Mapping[str, Any]:
        body = self.body
        schema: Mapping[str, Any]
        if "response_format" in body and "json_schema" in body["response_format"]:
            schema = body["response_format"]["json_schema"]["schema"]
        elif "format" in body.get("output_config", {}):
            schema = body["output_config"]["format"]["schema"]
        else:
            schema = json.loads(self.data.rsplit("JSON schema:\n", 1)[1])
        return schema

    @property
    def asked(self) -> dict[str, list[str]]:
        """The ids that are asked for, by group."""
        return asked_of(self.data)

    @property
    def kind(self) -> str:
        """Which form is asked for, by the name of its first group."""
        return str(next(iter(self.schema["properties"])))


Answer = Callable[[Seen], web.StreamResponse | Awaitable[web.StreamResponse] | str | None]


@cache
def _request_type(typed: Any) -> tuple[frozenset[str], TypeAdapter[Any]]:
    """The fields of a type of the SDK, and what validates it: building that takes longer than a whole test."""
    return frozenset(get_type_hints(typed)), TypeAdapter(typed)


@dataclass
class FakeLlm:
    """Answers forms by `fill`; `script` holds special answers for the next requests, in order.

    A scripted answer is a function of the request that returns a response, or a text for the model to say, or None for
    the usual answer. Every request is checked against the SDK's own types; what does not fit is in `wrong`.
    """

    fill: Fill = fill_in
    script: deque[Answer] = field(default_factory=deque)
    always: Answer | None = None
    seen: list[Seen] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    served: str | None = None
    """The model that replies say they are from; None: the one that was asked."""
    extra: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = field(default_factory=dict)
    delay_s: float = 0.0
    url: str = ""

    @property
    def chats(self) -> list[Seen]:
        return [seen for seen in self.seen if not seen.path.endswith("/embeddings")]

    @property
    def embeddings(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.path.endswith("/embeddings")]

    def kinds(self) -> list[str]:
        return [seen.kind for seen in self.chats]

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        for prefix, handler in self.extra.items():
            if f"{request.method} {request.path}".startswith(prefix):
                return await handler(request)
        raw = await request.read()
        seen = Seen(
            request.path, dict(request.query), {k.lower(): v for k, v in request.headers.items()}, json.loads(raw)
        )
        self.seen.append(seen)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        answer = self.script.popleft() if self.script else self.always
        reply = answer(seen) if answer else None
        if reply is not None and not isinstance(reply, str | web.StreamResponse):
            reply = await reply
        if isinstance(reply, web.StreamResponse):
            return reply
        # The SDKs' types take seconds to import: only where a request is checked.
        if request.path.endswith("/embeddings"):
            from openai.types import EmbeddingCreateParams

            self.check(EmbeddingCreateParams, seen.body)
            return web.json_response(embeddings(seen.body))
        if request.path.endswith("/messages"):
            from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

            self.check(MessageCreateParamsNonStreaming, seen.body)
            return web.json_response(self.message(seen, reply))
        from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

        self.check(CompletionCreateParamsNonStreaming, seen.body)
        return web.json_response(self.completion(seen, reply))

    def check(self, typed: Any, body: Mapping[str, Any]) -> None:
        fields, validator = _request_type(typed)
        unknown = set(body) - fields
        if unknown:
            self.wrong.append(f"unknown: {sorted(unknown)}")
        try:
            validator.validate_python(body)
        except ValueError as error:
            self.wrong.append(str(error))

    def text(self, seen: Seen) -> str:
        return json.dumps(self.fill(seen.schema, seen.data))

    def completion(self, seen: Seen, given: str | None = None) -> dict[str, Any]:
        text = self.text(seen) if given is None else given
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, **self.usage}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": self.served or seen.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish or "stop", "logprobs": None}],
            "usage": usage,
        }

    def message(self, seen: Seen, given: str | None = None) -> dict[str, Any]:
        text = self.text(seen) if given is None else given
        content: dict[str, Any] = {"type": "text", "text": text}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.served or seen.body["model"],
            "content": [content],
            "stop_reason": self.finish or "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 50, **self.usage},
        }


def embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Vectors that differ with the length of the text, in the encoding asked for."""
    texts = body["input"]
    data = []
    for at, text in enumerate(texts):
        vector = [1.0, len(text) / 100.0, 0.5]
        encoded = base64.b64encode(struct.pack("<3f", *vector)).decode()
        value = encoded if body.get("encoding_format") == "base64" else vector
        data.append({"object": "embedding", "index": at, "embedding": value})
    # Out of order, as a server may: the index counts.
    usage = {"prompt_tokens": 7 * len(texts), "total_tokens": 7 * len(texts)}
    return {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}


class Loop:
    """An event loop in a thread of its own, so that a server outlives the single calls of a test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runners: list[web.AppRunner] = []

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=timeout_s)

    def serve(self, fake: FakeLlm, ssl_context: Any = None) -> FakeLlm:
        async def start() -> int:
            runner = web.AppRunner(fake.app(), shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
            await site.start()
            self._runners.append(runner)
            return int(runner.addresses[0][1])

        fake.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{self.run(start())}"
        return fake

    def close(self) -> None:
        for runner in self._runners:
            self.run(runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def hurried_sleep(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.002))


HURRIED = Clock(now=time.monotonic, sleep=hurried_sleep, uniform=lambda low, _high: low)


@dataclass
class World:
    """What a test needs: the server, and judges that talk to it."""

    loop: Loop
    fake: FakeLlm
    judges: list[LlmJudge] = field(default_factory=list)

    def judge(
        self,
        name: str = "openai:gpt-4o-mini",
        *,
        cache: Path | None = None,
        environ: Mapping[str, str] | None = None,
        samples: tuple[Sample, ...] = (),
        clock: Clock = HURRIED,
        tell_secret: Callable[[str], None] = ignore_secret,
        **settings: Any,
    ) -> LlmJudge:
        """A judge; its clock hurries: a wait of seconds takes 2 ms."""
        provider, _ = split_name(name)
        base = self.fake.url if provider == "anthropic" else f"{self.fake.url}/v1"
        settings.setdefault("base_url", base)
        if provider != "openai-compatible":
            settings.setdefault("api_key", KEY)
        around = Surroundings(GoldenSet(samples), cache, environ or {}, tell_secret)
        judge = assemble(JudgeSettings(name=name, **settings), around, clock)
        self.judges.append(judge)
        return judge

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    def ask(self, judge: LlmJudge | None = None, answer: str = "In 1931.", **settings: Any) -> StatementList:
        """Asks for the statements of an answer."""
        judge_to_ask = judge or self.judge(**settings)
        return self.run(judge_to_ask.statements("When?", answer, call=Call("q1")))


@pytest.fixture(scope="session")
def event_loop_thread() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def world(event_loop_thread: Loop) -> Iterator[World]:
    new_world = World(event_loop_thread, event_loop_thread.serve(FakeLlm()))
    yield new_world
    for judge in new_world.judges:
        event_loop_thread.run(judge.close())
    assert new_world.fake.wrong == []


@pytest.fixture
def key() -> str:
    return KEY


def error_reply(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return lambda _seen: web.json_response(
        body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.fixture
def refuse() -> Callable[..., Answer]:
    """Makes an answer with an error status: ``refuse(429, "slow down", Retry_After="1")``."""
    return error_reply
