"""What judging 1,000 samples costs: the tokens of every request and reply, by part and by model.

    pip install bpe-openai
    python bench/judge_cost.py

No model is asked: a server on loopback takes the requests, and replies as a model would that does what is asked. A
sample has a question of 15 words, an answer of 60 in 3 to 8 sentences (a statement each), a reference of 40 in 2 to 5,
and 3 to 6 contexts of 120 words. A quote has 6 words. Tokens are those of o200k, OpenAI's encoding.

"With caches": requests that begin with what was sent before, from 1,024 tokens on and in steps of 128, pay the cached
price for it, as OpenAI describes its cache. "Without": all input at the full price. "Later run": the statements of the
references are known, all else is new. "Short prompts": what models get whose cache isn't known to hold the long ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.assembly import assemble
from ragstone.judge.llm.prices import Tariff, reasoning_tokens, tariff
from ragstone.judge.llm.prompts import layout_of, schema_of
from ragstone.judge.llm.provider import Usage
from ragstone.judge.protocol import Call, Surroundings
from ragstone.settings.settings import JudgeSettings, Price
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
MARK = re.compile(r"^<<<.*?>>>\n?", re.MULTILINE)


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


@dataclass
class Model:
    """The server: a model that does what is asked, and never says more."""

    samples: Mapping[int, Texts]
    sent: list[Sent] = field(default_factory=list)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/embeddings", self.embeddings)
        return app

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": [0.5, 0.5]} for at in range(len(texts))]
        usage = {"prompt_tokens": 9, "total_tokens": 9}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})

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
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 4_000, "completion_tokens": 100, "total_tokens": 4_100}
        document = {"id": "x", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage}
        return web.json_response({**document, "choices": [choice]})


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

    def dollars(self, price: Tariff, *, caches: bool) -> float:
        """US dollars of 1,000 samples."""
        cached = round(1_000 * self.cached) if caches else 0
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


async def ragstone(url: str, model: Model, *, brief: bool = False) -> tuple[list[Sent], list[Sent]]:
    """What a first run and a later one send."""
    price = tariff("openai", MODEL)
    assert price is not None
    uncached = {MODEL: Price(input=price.input, cached_input=price.input, output=price.output)} if brief else {}
    settings = JudgeSettings(name=f"openai:{MODEL}", base_url=url, api_key=SecretStr("none"), prices=uncached)
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


def parts(sent: Sequence[Sent], task: str, samples: int) -> dict[str, float]:
    """Mean tokens of the parts of a task's requests and of its replies."""
    prompt = layout_of("openai", MODEL).prompts[task]
    instructions, _, examples = prompt.static.partition("Worked examples")
    group = next(iter(schema_of(task)["properties"]))  # type: ignore[call-overload]
    own = [one for one in sent if one.task == group]
    data = sum(len(encoded(one.data)) for one in own) / samples
    plain = sum(len(encoded(MARK.sub("", REQUESTED.sub("", one.data)))) for one in own) / samples
    return {
        "schema": len(encoded(json.dumps(schema_of(task)))),
        "instructions": len(encoded(instructions)),
        "examples": len(encoded(examples)),
        "data": plain,
        "marks": data - plain,
        "reply": sum(len(encoded(one.reply)) for one in own) / samples,
    }


def by_model(found: Mapping[str, Mapping[str, float]]) -> None:
    """The cost by model, each with the prompts that it gets; one call of each task warms the cache."""
    print("\n| model | cost | input read from the cache | reasoning tokens a call, assumed |\n|---|---|---|---|")
    for provider, model in MODELS:
        price, layout = tariff(provider, model), layout_of(provider, model)
        assert price is not None
        reasoning = reasoning_tokens(JudgeSettings(name=f"{provider}:{model}"), provider, model)
        usage = [0.0, 0.0, float(len(HEADLINE) * reasoning)]
        for task in HEADLINE:
            one = found[task]
            prefix = len(encoded(layout.prompts[task].static)) + one["schema"]
            cached = task in layout.cached
            usage[0] += one["data"] + one["marks"] + (0 if cached else prefix)
            usage[1] += prefix if cached else 0
            usage[2] += one["reply"]
        whole = Usage(round(1_000 * usage[0]), round(1_000 * usage[1]), 0, round(1_000 * usage[2]))
        cached_share = usage[1] / (usage[0] + usage[1])
        print(f"| {model} | ${price.cost_usd(whole):.2f} | {cached_share:.0%} | {reasoning:,} |")


def row(name: str, tokens: Spent, price: Tariff) -> str:
    costs = " | ".join(f"${tokens.dollars(price, caches=caches):.2f}" for caches in (True, False))
    counts = f"{tokens.calls:.1f} | {tokens.input:,.0f} | {tokens.cached:,.0f} | {tokens.output:,.0f}"
    return f"| {name} | {counts} | {costs} |"


async def measure(count: int) -> None:
    model = Model({number: sample(number) for number in range(1, count + 1)})
    runner = web.AppRunner(model.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    price = tariff("openai", MODEL)
    assert price is not None
    first, later = await ragstone(url, model)
    brief, _ = await ragstone(url, model, brief=True)
    await runner.cleanup()
    print("| | calls | input | of it cached | output | with caches | without |\n|---|---|---|---|---|---|---|")
    for name, sent in (("first run", first), ("later run", later), ("short prompts", brief)):
        print(row(name, spent(sent, count), price))
    by_task = {task: parts(first, task, count) for task in HEADLINE}
    names = list(by_task["support"])
    print("\n| prompt |", " | ".join(names), "|\n|---|" + "---|" * len(names))
    for task, tokens in [*by_task.items(), ("context_use, later run", parts(later, "context_use", count))]:
        print(f"| {task} |", " | ".join(f"{tokens[name]:,.0f}" for name in names), "|")
    by_model(by_task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    asyncio.run(measure(parser.parse_args().samples))


if __name__ == "__main__":
    main()
