"""A provider on loopback that answers Ragstone's requests after a fixed time, with configurable failures.

    python bench/fake_judge.py --port 8795 --latency-ms 100

It implements OpenAI's chat completions and embeddings. A chat request of any kind is answered with an object that fits
its JSON schema (in `response_format`, else at the end of the prompt, as `openai-compatible:` judges send it) and
contains the ids that the prompt asks for. POST /config sets the faults (see `Faults`), GET /stats returns the counts
since POST /reset: of calls, by kind, of faults (`inj_429` …), of tokens, of chat requests (`chat_again`) and texts to
embed (`embedded_again`) that had come before, and when the first call arrived, by the monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

ASKED = re.compile(r"^Asked for: (.*)\.$", re.MULTILINE)
QUESTION = "This is a short question?"
DIMENSIONS = 64
EMBEDDING = [((i * 37) % 101) / 101 - 0.3 for i in range(DIMENSIONS)]
REFUSALS = {429: "Rate limit reached", 500: "The server had an error"}


@dataclass(frozen=True)
class Faults:
    """Probabilities of the faults of a request, and how long to wait."""

    p429: float = 0.0
    p500: float = 0.0
    p_malformed: float = 0.0
    p_truncated: float = 0.0
    p_hang: float = 0.0
    retry_after: int = 1
    hang_s: float = 30.0

    def draw(self, chance: random.Random) -> str | None:
        """The name of the fault that this request suffers, if any."""
        at = chance.random()
        for name in ("429", "500", "malformed", "truncated", "hang"):
            at -= getattr(self, f"p{name}" if name.isdigit() else f"p_{name}")
            if at < 0:
                return name
        return None


def asked_for(prompt: str) -> dict[str, list[str]]:
    """The ids that the prompt's last request line lists, by group."""
    lines = ASKED.findall(prompt)
    parts = [part.partition(": ") for part in lines[-1].split("; ")] if lines else []
    return {
        name: ["*"] if what.startswith("list them") else [] if what == "none" else what.split(", ")
        for name, _, what in parts
    }


PLANTED = re.compile("ferry carries|signed the treaty of|was rebuilt for|brewery from|feet long")
"""Words of each statement that a run plants to test its judge."""
CONTEXT = re.compile(r"^<<<context (c\d+) \d+>>>\n(.*?)\n<<<", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^<<<(?:text|passage (p\d+)) \d+>>>\n(.*?)\n<<<", re.MULTILINE | re.DOTALL)
SCHEMA_AT_END = "JSON schema:\n"


def schema_of(body: Mapping[str, Any], prompt: str) -> Mapping[str, Any]:
    """The schema of a request, in its JSON-schema mode or at the end of its prompt."""
    in_prompt = prompt.rpartition(SCHEMA_AT_END)[2]
    schema: Mapping[str, Any] = (
        body["response_format"]["json_schema"]["schema"] if "response_format" in body else json.loads(in_prompt)
    )
    return schema


def items(schema: Mapping[str, Any], ids: list[str], prompt: str) -> list[object]:
    """The items of a group by id, as `schema` describes one: the first context has it all, every context is useful."""
    shown = CONTEXT.search(prompt)
    first = [shown.group(1)] if shown else []
    own: dict[str, object] = {
        "evidence": first,
        "found_in": first,
        "against": [],
        "needed": [1],
        "quote": " ".join(shown.group(2).split()[:6]) if shown else "",
        "match": "same",
        **{"reason": "Fine.", "standalone": "yes", "sensible": "yes", "trivial": "no"},
    }
    if "evidence" in schema["properties"] and PLANTED.search(prompt):
        own |= {"evidence": [], "quote": "", "verdict": "unsupported"}
    named = ["r1", "r2"] if ids == ["*"] else ids
    made: list[object] = []
    for item_id in named:
        texts = {"id": item_id, "text": QUESTION if item_id.startswith("q") else f"Statement {item_id}."}
        made.append(
            {name: texts.get(name, own.get(name, example_of(inner))) for name, inner in schema["properties"].items()}
        )
    return made


def example_of(schema: Mapping[str, Any], prompt: str = "", name: str = "") -> object:
    """A value called `name` that fits a JSON schema of the kind that structured outputs allow; arrays have three items.

    Entities, passages and quotes are those of the prompt.
    """
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {key: example_of(inner, prompt, key) for key, inner in schema.get("properties", {}).items()}
    if name in ("names", "passage", "quote"):
        block = BLOCK.search(prompt)
        words = block.group(2).split()[:6] if block else []
        return {"names": words[:1], "passage": block.group(1) if block else "", "quote": " ".join(words)}[name]
    if kind == "array":
        return [example_of(schema["items"], prompt)] * 3
    values: dict[str, object] = {"string": "This is a short sentence.", "integer": 1, "number": 1, "boolean": True}
    return values.get(kind)


def reply_to(prompt: str, schema: Mapping[str, Any]) -> str:
    """The JSON text that a model would write to `prompt`."""
    filled = example_of(schema, prompt)
    assert isinstance(filled, dict)
    for name, ids in asked_for(prompt).items():
        filled[name] = items(schema["properties"][name]["items"], ids, prompt)
    return json.dumps(filled)


class Provider:
    """The server's state: its latency, faults and counts."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.faults = Faults()
        self.stats: Counter[str] = Counter()
        self.first_at = 0.0
        self._chance = random.Random(1)
        self._seen: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/embeddings", self.embeddings)
        app.router.add_get("/stats", self.show)
        app.router.add_post("/reset", self.reset)
        app.router.add_post("/config", self.configure)
        return app

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.stats["chat"] += 1
        prompt = str(body["messages"][-1]["content"])
        self.stats["chat_again"] += self._came_before(json.dumps(body["messages"]))
        text = reply_to(prompt, schema_of(body, prompt))
        self.stats["input_tokens"] += len(prompt) // 4 + 1
        self.stats["output_tokens"] += len(text) // 4 + 1
        return await self._answer(prompt, text, lambda text, reason: completion(body["model"], prompt, text, reason))

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.stats["embeddings"] += 1
        data = [{"object": "embedding", "index": i, "embedding": EMBEDDING} for i in range(len(body["input"]))]
        self.stats["embedded_again"] += sum(self._came_before(text) for text in body["input"] if text != QUESTION)
        tokens = sum(len(text) for text in body["input"]) // 4 + 1
        self.stats["embedded_tokens"] += tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        document = {"object": "list", "model": body["model"], "data": data, "usage": usage}
        return await self._answer("", "", lambda _text, _reason: document)

    def _came_before(self, text: str) -> bool:
        known = text in self._seen
        self._seen.add(text)
        return known

    async def _answer(self, prompt: str, text: str, document: Any) -> web.Response:
        self.first_at = self.first_at or time.monotonic()
        self.stats["calls"] += 1
        self.stats["in_flight"] += 1
        self.stats["max_in_flight"] = max(self.stats["max_in_flight"], self.stats["in_flight"])
        fault = self.faults.draw(self._chance)
        if not prompt and fault in {"malformed", "truncated"}:
            fault = None  # only text can be spoilt
        if fault is not None:
            self.stats[f"inj_{fault}"] += 1
        try:
            await asyncio.sleep(self.latency_s + (self.faults.hang_s if fault == "hang" else 0.0))
        finally:
            self.stats["in_flight"] -= 1
        if fault in {"429", "500"}:
            headers = {"Retry-After": str(self.faults.retry_after)} if fault == "429" else None
            error = {"error": {"message": REFUSALS[int(fault)], "type": "server_error"}}
            return web.json_response(error, status=int(fault), headers=headers)
        if fault == "malformed":
            text = "Sure, here is the result: {verdicts: [supported, 'not"
        elif fault == "truncated":
            text = text[: len(text) // 2]
        return web.json_response(document(text, "length" if fault == "truncated" else "stop"))

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response({**self.stats, "first_at": self.first_at})

    async def reset(self, request: web.Request) -> web.Response:
        self.stats.clear()
        self.first_at = 0.0
        self._seen.clear()
        return web.json_response({})

    async def configure(self, request: web.Request) -> web.Response:
        self.faults = Faults(**await request.json())
        return web.json_response({})


def completion(model: str, prompt: str, text: str, reason: str) -> dict[str, object]:
    """A chat completion, as OpenAI's API returns it; a token is four characters."""
    spent, written = len(prompt) // 4 + 1, len(text) // 4 + 1
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": spent, "completion_tokens": written, "total_tokens": spent + written},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8795)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    given = parser.parse_args()
    app = Provider(given.latency_ms / 1000).app()
    web.run_app(app, host="127.0.0.1", port=given.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
