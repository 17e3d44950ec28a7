"""A provider on loopback that answers Ragstone's requests after a fixed time, with configurable failures.

    python bench/fake_judge.py --port 8795 --latency-ms 100

It implements OpenAI's chat completions and embeddings. A chat request is answered with an object that fits its JSON
schema and contains the ids requested in the last line of the prompt. POST /config sets the faults (see `Faults`), GET
/stats returns the counts since POST /reset.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
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


@dataclass
class Stats:
    """Counts of requests since the last reset."""

    calls: int = 0
    chat: int = 0
    embeddings: int = 0
    inj_429: int = 0
    inj_500: int = 0
    inj_malformed: int = 0
    inj_truncated: int = 0
    inj_hang: int = 0
    in_flight: int = field(default=0)
    max_in_flight: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedded_tokens: int = 0
    chat_again: int = 0
    """Chat requests that had come before."""
    embedded_again: int = 0
    """Texts to embed that had come before, except those that this provider wrote."""
    first_at: float = 0.0
    """When the first call arrived, by the monotonic clock."""


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
FIRST = re.compile(r"^<<<context c1 \d+>>>\n(.*?)\n<<<", re.MULTILINE | re.DOTALL)


def items(group: str, ids: list[str], prompt: str) -> list[object]:
    """The items of a group: the first context has it all, and every context is useful."""
    if group == "verdicts":
        if PLANTED.search(prompt):
            return [{"id": own, "quote": "", "verdict": "unsupported"} for own in ids]
        shown = FIRST.search(prompt)
        quote = " ".join(shown.group(1).split()[:6]) if shown else ""
        return [{"id": f"{own} c1", "quote": quote, "verdict": "supported"} for own in ids]
    if group == "checks":
        return [{"id": own, "reason": "Fine.", "standalone": "yes", "sensible": "yes", "trivial": "no"} for own in ids]
    if group == "answers":
        return [{"id": own, "match": "same"} for own in ids]
    judged = "reference_statements: " in prompt.rsplit("\n", 1)[-1] or "<<<answer " in prompt
    found = "supported" if "answer_verdicts: " in prompt.rsplit("\n", 1)[-1] else "c1"
    says = {"contexts": "useful" if judged else "1", "questions": QUESTION}
    if ids == ["*"]:
        return [f"r{at} Statement r{at}. | {found}" for at in (1, 2)]
    return [f"{own} {says.get(group, found)}" for own in ids]


def example_of(schema: Mapping[str, Any]) -> object:
    """A value that fits a JSON schema of the kind that structured outputs allow; arrays have three items."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {name: example_of(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema["items"])] * 3
    values: dict[str, object] = {"string": "This is a short sentence.", "integer": 1, "number": 1, "boolean": True}
    return values.get(kind)


def reply_to(prompt: str, schema: Mapping[str, Any]) -> str:
    """The JSON text that a model would write to `prompt`."""
    filled = example_of(schema)
    assert isinstance(filled, dict)
    for name, ids in asked_for(prompt).items():
        filled[name] = items(name, ids, prompt)
    return json.dumps(filled)


class Provider:
    """The server's state: its latency, faults and counts."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.faults = Faults()
        self.stats = Stats()
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
        self.stats.chat += 1
        prompt = str(body["messages"][-1]["content"])
        self.stats.chat_again += self._came_before(json.dumps(body["messages"]))
        text = reply_to(prompt, body["response_format"]["json_schema"]["schema"])
        self.stats.input_tokens += len(prompt) // 4 + 1
        self.stats.output_tokens += len(text) // 4 + 1
        return await self._answer(prompt, text, lambda text, reason: completion(body["model"], prompt, text, reason))

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.stats.embeddings += 1
        data = [{"object": "embedding", "index": i, "embedding": EMBEDDING} for i in range(len(body["input"]))]
        self.stats.embedded_again += sum(self._came_before(text) for text in body["input"] if text != QUESTION)
        tokens = sum(len(text) for text in body["input"]) // 4 + 1
        self.stats.embedded_tokens += tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        document = {"object": "list", "model": body["model"], "data": data, "usage": usage}
        return await self._answer("", "", lambda _text, _reason: document)

    def _came_before(self, text: str) -> bool:
        known = text in self._seen
        self._seen.add(text)
        return known

    async def _answer(self, prompt: str, text: str, document: Any) -> web.Response:
        self.stats.first_at = self.stats.first_at or time.monotonic()
        self.stats.calls += 1
        self.stats.in_flight += 1
        self.stats.max_in_flight = max(self.stats.max_in_flight, self.stats.in_flight)
        fault = self.faults.draw(self._chance)
        if not prompt and fault in {"malformed", "truncated"}:
            fault = None  # only text can be spoilt
        if fault is not None:
            setattr(self.stats, f"inj_{fault}", getattr(self.stats, f"inj_{fault}") + 1)
        try:
            await asyncio.sleep(self.latency_s + (self.faults.hang_s if fault == "hang" else 0.0))
        finally:
            self.stats.in_flight -= 1
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
        return web.json_response(asdict(self.stats))

    async def reset(self, request: web.Request) -> web.Response:
        self.stats = Stats()
        self._seen.clear()
        return web.json_response({})

    async def configure(self, request: web.Request) -> web.Response:
        given = await request.json()
        unknown = set(given) - {known.name for known in fields(Faults)}
        if unknown:
            return web.json_response({"error": f"unknown: {sorted(unknown)}"}, status=400)
        self.faults = replace(self.faults, **given)
        return web.json_response(asdict(self.faults))


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
