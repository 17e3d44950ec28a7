"""What is the same in every sample's request, so that providers can cache it: the
prompts, which are data files of this package, the JSON schemas of the replies
(schemas.json), and which model gets which prompt.

A schema describes an item, not which items there must be: a group is an array of items
with ids, and the ids are checked when the reply is read, as is how many levels a rubric
has. Objects are closed and every property is required, as strict modes demand.
Providers put the schema before the prompt.
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
from ragstone.judge.llm.prices import listed_price, tariff
from ragstone.judge.names import provider_of
from ragstone.judge.untrusted_text import Block, fenced
from ragstone.settings.settings import Price

RUBRIC = "rubric"
"""The task of the user's own rubrics. Its prompt belongs to the version of their
metrics, not to the judge's."""

ENTITIES = "entities"
"""The task of context entity recall. Its prompt belongs to the version of that metric,
too."""

STANDALONE = "standalone_question"
"""The task of writing out the last question of a conversation."""

DRAFT_QUESTION = "draft_question"
DRAFT_UNANSWERABLE = "draft_unanswerable"
DRAFT_ATTEMPT = "draft_attempt"
DRAFT_INSPECTION = "draft_inspection"
DRAFT_WORSE = "draft_worse"
"""The tasks of `ragstone generate`, which judge nothing."""


class Prompt(Struct, frozen=True):
    """One task. `static` is everything before the data; `digest` is its SHA-256
    (hex)."""

    name: str
    version: str
    static: str
    digest: str


@functools.cache
def load_prompt(name: str, *, brief: bool = False) -> Prompt:
    """The prompt called `name`, between the shared part and its worked examples; a
    `brief` one has fewer examples."""
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
        blocks = [Block(name=block[0], text=block[1]) for block in example["blocks"]]
        request = ""
        if "asked" in example:
            request = request_line(example["asked"])
        shown = f"{fenced(blocks)}{request}"
        parts.append(f"{shown}\nReply: {example['reply']}")
    static = "\n\n".join(parts)
    version = f"{shared['version']}.{document['version']}"
    return Prompt(
        name,
        version,
        static,
        hashlib.sha256(f"{name}\0{version}\0{static}".encode()).hexdigest(),
    )


def request_line(request: str) -> str:
    """The last line of a request: the requested groups and ids."""
    return f"\n\nAsked for: {request}."


def _document(name: str) -> dict[str, object]:
    document: dict[str, object] = read_table(f"prompts/{name}.toml", __package__)
    return document


@functools.cache
def growth(name: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """For an estimate: the characters of a request with the prompt `name` by text, and
    the tokens of its reply."""
    estimate: Any = _document(name)["estimate"]
    return estimate["sent"], estimate["received"]


VERDICTS = tuple(map(str, Verdict))
USES = ("useful", "not_useful")
KINDS = ("answers", "abstains")

_SCHEMAS = json.loads(shipped("prompts/schemas.json", __package__).read_text("utf-8"))
_CLOSED: Mapping[str, dict[str, object]] = _SCHEMAS["judging"]
_APART: Mapping[str, dict[str, object]] = _SCHEMAS["apart"]

APART = tuple(_APART)
"""Tasks whose prompts and schemas are no part of the judge's identity: those of a
metric with a version of its own, and those that judge nothing."""

NAMES = (*_CLOSED, *APART)


def schema_of(task: str) -> dict[str, object]:
    return _APART[task] if task in _APART else _CLOSED[task]


_CHARACTERS_PER_TOKEN = 4
_MAX_CHARACTERS_PER_TOKEN = 4.5


class Layout(Struct, frozen=True):
    """Which prompt each task gets, and the tasks whose fixed part the provider is known
    to cache.

    `breakpoints`: the model's cache is useless unless the request marks where the fixed
    part ends. `statements`: the most that one call judges; models lose track in long
    lists, small ones sooner.
    """

    prompts: Mapping[str, Prompt]
    cached: frozenset[str]
    breakpoints: bool
    statements: int

    def digest(self) -> str:
        """Of all prompts and schemas that the judge's identity covers."""
        prompts = (
            prompt.digest for name, prompt in self.prompts.items() if name not in APART
        )
        return "".join(prompts) + json.dumps(_CLOSED)


def layout_of(
    provider: str, model: str, prices: Mapping[str, Price] | None = None
) -> Layout:
    """The layout for `model`.

    The long prompts, with all worked examples, are used if the model's cache is known
    to take them and makes them cheaper than the brief ones; otherwise the examples
    would be paid for with every call.
    """
    listed = listed_price(provider, model)
    cache_from = listed.cache_from if listed else None
    price = tariff(provider, model, prices)
    prompts: dict[str, Prompt] = {}
    cached: set[str] = set()
    for name in NAMES:
        long, brief = load_prompt(name), load_prompt(name, brief=True)
        prompts[name] = brief
        if cache_from is None or price is None:
            continue
        if _least_tokens(brief) >= cache_from:
            cached.add(name)
        elif (
            _least_tokens(long) >= cache_from
            and prefix_tokens(long) * price.cached_input
            < prefix_tokens(brief) * price.input
        ):
            prompts[name] = long
            cached.add(name)
    info = provider_of(provider)
    breakpoints = re.match(info.cache_breakpoints, model) is not None
    long_lists = re.match(info.long_lists, model) is not None
    return Layout(
        prompts,
        frozenset(cached),
        breakpoints,
        statements=50 if long_lists else 8,
    )


def prefix_tokens(prompt: Prompt) -> int:
    """The approximate number of tokens that all samples' requests share: the schema and
    the prompt."""
    return (
        len(prompt.static) + len(json.dumps(schema_of(prompt.name)))
    ) // _CHARACTERS_PER_TOKEN


def _least_tokens(prompt: Prompt) -> int:
    """A lower limit of the prompt's tokens; whether the schema counts too differs by
    provider."""
    return int(len(prompt.static) / _MAX_CHARACTERS_PER_TOKEN)
