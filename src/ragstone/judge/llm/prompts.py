"""The prompts and JSON schemas, and which model gets which prompt.

Both are data files of this package. They are the same in the requests of all samples,
so that providers can cache them. A schema describes the items of a reply, but not which
ids it must have, or how many levels a rubric has: that is checked when the reply is
read. Objects are closed and every property is required, as strict modes demand.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ragstone.files import read_table, shipped
from ragstone.judge.judgements import Verdict
from ragstone.judge.llm.prices import listed_price, tariff_of
from ragstone.judge.names import provider_of
from ragstone.judge.untrusted_text import Block, render_blocks
from ragstone.settings.settings import Price

RUBRIC = "rubric"
"""The prompt for the user's own rubrics. It is part of the version of their metrics,
not of the judge's."""

ENTITIES = "entities"
"""The prompt for context entity recall. It is part of the version of that metric."""

STANDALONE = "standalone_question"
"""The prompt that writes out the last question of a conversation."""

# The prompts of `ragstone generate`, which judge nothing.
DRAFT_QUESTION = "draft_question"
DRAFT_UNANSWERABLE = "draft_unanswerable"
DRAFT_ATTEMPT = "draft_attempt"
DRAFT_INSPECTION = "draft_inspection"
DRAFT_WORSE = "draft_worse"


class Prompt(Struct, frozen=True):
    """The prompt for one task."""

    name: str
    version: str
    static: str
    """Everything before the data of a sample."""
    digest: str
    """The SHA-256 (hex) of name, version and `static`."""


@functools.cache
def load_prompt(name: str, *, brief: bool = False) -> Prompt:
    """The prompt called `name`: the part shared by all prompts, its own, and worked
    examples; fewer of them if it is `brief`."""
    document = _document(name)
    shared = _document(str(document.get("shared", "shared")))
    parts = [
        str(shared["text"]).strip(),
        str(document["text"]).strip(),
        "Worked examples",
    ]
    for example in document["examples"]:  # type: ignore[attr-defined]
        if brief and not example.get("brief"):
            continue
        blocks = [
            Block(name=block_name, text=text) for block_name, text in example["blocks"]
        ]
        request = ""
        if "asked" in example:
            request = request_line(example["asked"])
        parts.append(f"{render_blocks(blocks)}{request}\nReply: {example['reply']}")
    static = "\n\n".join(parts)
    version = f"{shared['version']}.{document['version']}"
    digest = hashlib.sha256(f"{name}\0{version}\0{static}".encode()).hexdigest()
    return Prompt(name, version, static, digest)


def request_line(request: str) -> str:
    """The last line of a request: the requested groups and ids."""
    return f"\n\nAsked for: {request}."


def _document(name: str) -> dict[str, object]:
    document: dict[str, object] = read_table(f"prompts/{name}.toml", __package__)
    return document


class SizeFactors(Struct, frozen=True):
    """How the size of a call grows with the sample's texts, for an estimate."""

    sent_characters: Mapping[str, float]
    """The characters of a request for each character or statement of a text."""
    received_tokens: Mapping[str, float]
    """The tokens of a reply for each character or statement of a text."""


@functools.cache
def size_factors(name: str) -> SizeFactors:
    """The factors of the prompt called `name`."""
    estimate: Any = _document(name)["estimate"]
    return SizeFactors(estimate["sent"], estimate["received"])


VERDICTS = tuple(map(str, Verdict))
USES = ("useful", "not_useful")
KINDS = ("answers", "abstains")

_SCHEMAS = json.loads(shipped("prompts/schemas.json", __package__).read_text("utf-8"))
_JUDGING_SCHEMAS: Mapping[str, dict[str, object]] = _SCHEMAS["judging"]
_OTHER_SCHEMAS: Mapping[str, dict[str, object]] = _SCHEMAS["outside_identity"]

OUTSIDE_IDENTITY = tuple(_OTHER_SCHEMAS)
"""The prompts that, with their schemas, are no part of the judge's identity: those of a
metric with a version of its own, and those that judge nothing."""

NAMES = (*_JUDGING_SCHEMAS, *OUTSIDE_IDENTITY)
"""The names of all prompts."""


def schema_of(name: str) -> dict[str, object]:
    """The JSON schema of the replies to the prompt called `name`."""
    if name in _OTHER_SCHEMAS:
        return _OTHER_SCHEMAS[name]
    return _JUDGING_SCHEMAS[name]


_CHARACTERS_PER_TOKEN = 4
_MAX_CHARACTERS_PER_TOKEN = 4.5
_LONG_LIST = 50
_SHORT_LIST = 8
"""How many statements a call judges. Models lose track in long lists, small ones
sooner."""


class Layout(Struct, frozen=True):
    """The requests of one model: which prompts it gets, and what it is asked at
    once."""

    prompts: Mapping[str, Prompt]
    """The prompts by name."""
    cached_prompts: frozenset[str]
    """The names of the prompts that the provider is known to cache."""
    needs_breakpoints: bool
    """Whether the provider caches only requests that mark where the prompt ends."""
    statements_per_call: int
    """The most statements that one call judges."""

    def digest(self) -> str:
        """A text that changes with every prompt and schema in the judge's identity."""
        digests = (
            prompt.digest
            for name, prompt in self.prompts.items()
            if name not in OUTSIDE_IDENTITY
        )
        return "".join(digests) + json.dumps(_JUDGING_SCHEMAS)


def layout_of(
    provider: str, model: str, prices: Mapping[str, Price] | None = None
) -> Layout:
    """The layout for `model`.

    A prompt has all its worked examples if the provider is known to cache it, so that
    it is cheaper than the brief one; otherwise they would be paid for with every call.
    """
    model_price = listed_price(provider, model)
    cache_from = model_price.cache_from if model_price else None
    price = tariff_of(provider, model, prices)
    prompts: dict[str, Prompt] = {}
    cached_prompts: set[str] = set()
    for name in NAMES:
        full = load_prompt(name)
        brief = load_prompt(name, brief=True)
        prompts[name] = brief
        if cache_from is None or price is None:
            continue
        if _least_tokens(brief) >= cache_from:
            cached_prompts.add(name)
        elif _least_tokens(full) >= cache_from:
            full_cost = prefix_tokens(full) * price.cached_input
            brief_cost = prefix_tokens(brief) * price.input
            if full_cost < brief_cost:
                prompts[name] = full
                cached_prompts.add(name)
    info = provider_of(provider)
    needs_breakpoints = re.match(info.cache_breakpoints, model) is not None
    can_judge_long_lists = re.match(info.long_lists, model) is not None
    return Layout(
        prompts,
        frozenset(cached_prompts),
        needs_breakpoints,
        statements_per_call=_LONG_LIST if can_judge_long_lists else _SHORT_LIST,
    )


def prefix_tokens(prompt: Prompt) -> int:
    """The approximate number of tokens that the requests of all samples begin with: the
    schema and the prompt."""
    schema = json.dumps(schema_of(prompt.name))
    return (len(prompt.static) + len(schema)) // _CHARACTERS_PER_TOKEN


def _least_tokens(prompt: Prompt) -> int:
    """A lower limit of the prompt's tokens, without the schema: not every provider
    counts it as part of what can be cached."""
    return int(len(prompt.static) / _MAX_CHARACTERS_PER_TOKEN)
