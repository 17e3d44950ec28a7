"""Fits requests to a model's prompt cache: the length of the fixed part, and the mark where it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragstone.config import Price
from ragstone.judge.llm.prices import known_cache_from, tariff
from ragstone.judge.llm.prompts import APART, NAMES, Prompt, load_prompt
from ragstone.judge.llm.schemas import schema_of
from ragstone.judge.providers import find_provider

_CHARACTERS_PER_TOKEN = 4
_MAX_CHARACTERS_PER_TOKEN = 4.5


@dataclass(frozen=True, slots=True)
class Layout:
    """Which prompt each task gets, and the tasks whose fixed part the provider is known to cache.

    `breakpoints`: the model's cache is useless unless the request marks where the fixed part ends.
    """

    prompts: Mapping[str, Prompt]
    cached: frozenset[str]
    breakpoints: bool

    def digest(self) -> str:
        """Of all prompts that the judge's identity covers."""
        return "".join(prompt.digest for name, prompt in self.prompts.items() if name not in APART)


def layout_of(provider: str, model: str, prices: Mapping[str, Price] | None = None) -> Layout:
    """The layout for `model`.

    The long prompts, with all worked examples, are used if the model's cache is known to take them and makes them
    cheaper than the brief ones; otherwise the examples would be paid for with every call.
    """
    cache_from = known_cache_from(provider, model)
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
            and prefix_tokens(long) * price.cached_input < prefix_tokens(brief) * price.input
        ):
            prompts[name] = long
            cached.add(name)
    known = find_provider(provider)
    marked = known.cache_breakpoints if known is not None else None
    return Layout(prompts, frozenset(cached), marked is not None and re.match(marked, model) is not None)


def prefix_tokens(prompt: Prompt) -> int:
    """The approximate number of tokens that all samples' requests share: the schema and the prompt."""
    return (len(prompt.static) + len(json.dumps(schema_of(prompt.name)))) // _CHARACTERS_PER_TOKEN


def _least_tokens(prompt: Prompt) -> int:
    """A lower limit of the prompt's tokens; whether the schema counts too differs by provider."""
    return int(len(prompt.static) / _MAX_CHARACTERS_PER_TOKEN)
