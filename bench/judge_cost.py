"""What judging 1,000 samples costs: the tokens of every request and reply, by part and by model.

    pip install bpe-openai
    python bench/judge_cost.py

No model is asked: a server on loopback takes the requests, and replies as a model would that does what is asked. A
sample has a question of 15 words, an answer of 60 in 3 to 8 sentences (a statement each), a reference of 40 in 2 to 5,
and 3 to 6 contexts of 120 words. A quote has 6 words. Tokens are those of o200k, OpenAI's encoding.

"With caches": requests that begin with what was sent before, from 1,024 tokens on and in steps of 128, pay the cached
price for it, as OpenAI describes its cache. "Later run": the statements of the references are known, all else is new.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from aiohttp import web
from fake_judge import Provider, completion
from pydantic import SecretStr

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.assembly import assemble
from ragstone.judge.llm.prices import Tariff, reasoning_tokens, tariff_of
from ragstone.judge.llm.prompts import layout_of, schema_of
from ragstone.judge.llm.provider import Usage
from ragstone.judge.protocol import Call, Surroundings
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response

HEADLINE = ("statements", "support", "context_use", "reverse_questions")
KINDS = frozenset(JudgementKind(name) for name in HEADLINE)
MODEL = "gpt-5.4-mini"
MODELS = (
    *(("openai", name) for name in ("gpt-6.1-sol", "gpt-6-luna", "gpt-5.4", MODEL, "gpt-4o-mini")),
    *(("anthropic", name) for name in ("claude-opus-5", "claude-sonnet-5", "claude-haiku-4-5")),
)
CACHE_FROM, CACHE_STEP = 1_024, 128
WORDS = re.findall(
    r"\w+",
    "the of and a to in is was for on with as by at from which bridge river opened council winter built market teacher "
    "engine visitors station during museum harbour village annual permit members pressure filter summer railway costs "
    "between maintenance every northern department written reported survey garden storm century island letters school "
    "several before canal forest window castle tunnel however journey plan price seats month support customers back",
)
REQUESTED = re.compile(r"^Asked for: (.*)\.$", re.MULTILINE)
CONTEXT = re.compile(r"^<<<context c1 \d+>>>\n(.*?)\n<<<", re.MULTILINE | re.DOTALL)


def encoder() -> Any:
    """What counts tokens: OpenAI's own encoding, from a package that brings it along."""
    try:
        return import_module("bpe_openai").get_encoding("o200k_base")
    except ModuleNotFoundError:
        raise SystemExit("Tokens are counted with bpe-openai: pip install bpe-openai") from None


ENCODER = encoder()


def encoded(text: str) -> list[int]:
    return list(ENCODER.encode(text))


@dataclass(frozen=True)
class Texts:
    """A sample; each text names the sample's number, by which the server knows it again."""

    number: int
    question: str
    answer: list[str]
    reference: list[str]
    contexts: list[str]


def sentences(chance: random.Random, words: int, count: int, number: int) -> list[str]:
    found = []
    for at in range(count):
        own = words // count + (at < words % count)
        middle = " ".join(chance.choice(WORDS) for _ in range(own - 3))
        found.append(f"Item {number:04} {middle} {chance.randint(1500, 2024)}.")
    return found


def sample(number: int) -> Texts:
    chance = random.Random(number)
    question = sentences(chance, 15, 1, number)[0].replace(".", "?")
    answer = sentences(chance, 60, chance.randint(3, 8), number)
    reference = sentences(chance, 40, chance.randint(2, 5), number)
    contexts = [" ".join(sentences(chance, 120, 7, number)) for _ in range(chance.randint(3, 6))]
    return Texts(number, question, answer, reference, contexts)


@dataclass
class Sent:
    """A request as it was sent and answered."""

    task: str
    fixed: str
    data: str
    reply: str


class Model(Provider):
    """The server: a model that does what is asked, and never says more."""

    def __init__(self, samples: Mapping[int, Texts]) -> None:
        super().__init__(0.0)
        self.samples = samples
        self.sent: list[Sent] = []

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = [text_of(message["content"]) for message in body["messages"]]
        schema = body["response_format"]["json_schema"]["schema"]
        requested = REQUESTED.findall(texts[-1])
        own = self.samples[int(re.findall(r"Item (\d{4})", texts[-1])[-1])]
        reply = reply_to(texts[-1], requested[-1], own) if requested else fill(schema, schema, own, "")
        text = json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
        fixed = json.dumps(schema) + "".join(texts[:-1])
        self.sent.append(Sent(next(iter(schema["properties"])), fixed, texts[-1], text))
        return web.json_response(completion(body["model"], texts[-1], text, "stop"))


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def reply_to(data: str, requested: str, texts: Texts) -> dict[str, object]:
    """The reply to a request by id: every context is useful, and the first one has everything."""
    reply: dict[str, object] = {}
    for part in requested.split("; "):
        name, _, ids = part.partition(": ")
        listed = ids.split(", ")
        if name == "verdicts":
            shown = CONTEXT.search(data)
            assert shown is not None
            quote = " ".join(shown.group(1).split()[:6])
            verdict = {"evidence": ["c1"], "against": [], "quote": quote, "verdict": "supported"}
            reply[name] = [{"id": item_id, **verdict} for item_id in listed]
        elif name == "contexts":
            reply[name] = [{"id": item_id, "use": "useful"} for item_id in listed]
        elif name == "questions":
            reply[name] = [{"id": item_id, "text": texts.question} for item_id in listed]
        elif ids.startswith("list them"):
            reply[name] = [
                {"id": f"r{at}", "text": text, "found_in": ["c1"]} for at, text in enumerate(texts.reference, start=1)
            ]
        else:
            reply[name] = [{"id": item_id, "text": "", "found_in": ["c1"]} for item_id in listed]
    return reply


def fill(schema: Any, root: Any, texts: Texts, name: str) -> Any:
    """A value that fits `schema`: lists have an item for each sentence of the answer."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        return {key: fill(inner, root, texts, key) for key, inner in schema["properties"].items()}
    if kind == "array":
        items = [fill(schema["items"], root, texts, name) for _ in texts.answer]
        return texts.answer if items and isinstance(items[0], str) else items
    return 1 if kind in ("integer", "number", "boolean") else texts.question


@dataclass
class Spent:
    """Mean tokens and calls per sample."""

    calls: float = 0.0
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0

    def dollars(self, price: Tariff) -> float:
        """US dollars of 1,000 samples."""
        cached = round(1_000 * self.cached)
        return price.cost_usd(Usage(round(1_000 * self.input) - cached, cached, 0, round(1_000 * self.output)))


def spent(sent: Sequence[Sent], samples: int) -> Spent:
    """The tokens of all requests; those that begin as an earlier one did may be read from the cache."""
    total, before = Spent(calls=len(sent) / samples), defaultdict[str, list[list[int]]](list)
    for one in sent:
        tokens = encoded(one.fixed + one.data)
        known = before[one.task]
        common = max((shared(tokens, other) for other in known[-8:]), default=0)
        total.input += len(tokens) / samples
        total.cached += (common // CACHE_STEP * CACHE_STEP if common >= CACHE_FROM else 0) / samples
        total.output += len(encoded(one.reply)) / samples
        known.append(tokens)
    return total


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


async def ragstone(url: str, model: Model) -> tuple[list[Sent], list[Sent]]:
    """What a first run and a later one send."""
    settings = JudgeSettings(name=f"openai:{MODEL}", base_url=url, api_key=SecretStr("none"))
    judge = assemble(settings, Surroundings(GoldenSet(()), None, {}))
    runs = []
    for _ in range(2):
        model.sent.clear()
        for texts in model.samples.values():
            asked = Sample(f"q{texts.number}", texts.question, reference=" ".join(texts.reference))
            contexts = tuple(map(Context, texts.contexts))
            response = Response(asked.id, " ".join(texts.answer), contexts)
            await collect_judgements(judge, asked, response, KINDS, Call(asked.id))
        runs.append(list(model.sent))
    await judge.close()
    return runs[0], runs[1]


def by_model(sent: Sequence[Sent], samples: int) -> None:
    """The cost by model, each with the prompts that it gets; one call of each task warms the cache."""
    print("\n| model | cost | input read from the cache | reasoning tokens a call, assumed |\n|---|---|---|---|")
    tokens: dict[str, tuple[float, float]] = {}
    for task in HEADLINE:
        group = next(iter(schema_of(task)["properties"]))  # type: ignore[call-overload]
        own = [request for request in sent if request.task == group]
        data = sum(len(encoded(request.data)) for request in own) / samples
        tokens[task] = data, sum(len(encoded(request.reply)) for request in own) / samples
    for provider, model in MODELS:
        price, layout = tariff_of(provider, model), layout_of(provider, model)
        assert price is not None
        reasoning = reasoning_tokens(JudgeSettings(name=f"{provider}:{model}"), provider, model)
        new, cached, output = 0.0, 0.0, float(len(HEADLINE) * reasoning)
        for task, (data, reply) in tokens.items():
            prefix = len(encoded(layout.prompts[task].static)) + len(encoded(json.dumps(schema_of(task))))
            new += data
            output += reply
            if task in layout.cached_prompts:
                cached += prefix
            else:
                new += prefix
        usage = Usage(round(1_000 * new), round(1_000 * cached), 0, round(1_000 * output))
        print(f"| {model} | ${price.cost_usd(usage):.2f} | {cached / (new + cached):.0%} | {reasoning:,} |")


async def measure(count: int) -> None:
    model = Model({number: sample(number) for number in range(1, count + 1)})
    runner = web.AppRunner(model.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    price = tariff_of("openai", MODEL)
    assert price is not None
    first, later = await ragstone(url, model)
    await runner.cleanup()
    print("| | calls | input | of it cached | output | with caches |\n|---|---|---|---|---|---|")
    for name, sent in (("first run", first), ("later run", later)):
        tokens = spent(sent, count)
        counts = f"{tokens.calls:.1f} | {tokens.input:,.0f} | {tokens.cached:,.0f} | {tokens.output:,.0f}"
        print(f"| {name} | {counts} | ${tokens.dollars(price):.2f} |")
    by_model(first, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    asyncio.run(measure(parser.parse_args().samples))


if __name__ == "__main__":
    main()
