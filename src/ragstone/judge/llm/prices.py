"""Token prices: the dated price file, overridden by the user's own prices."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from ragstone.config import Price
from ragstone.judge.llm.provider import Usage

_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
_MILLION = 1_000_000


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    window: int = Field(ge=1024)
    cache_from: int | None = Field(default=None, ge=1)


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    batch_factor: float = Field(gt=0, le=1)
    openai: dict[str, _Entry]
    anthropic: dict[str, _Entry]


@dataclass(frozen=True, slots=True)
class Tariff:
    """One model's prices in US dollars per million tokens."""

    input: float
    output: float
    cached_input: float
    cache_write: float
    batch_factor: float

    def cost_usd(self, usage: Usage, *, batched: bool = False) -> float:
        """US dollars for `usage`, each kind of token at its own rate."""
        cost = (
            usage.input_tokens * self.input
            + usage.cached_input_tokens * self.cached_input
            + usage.cache_write_tokens * self.cache_write
            + usage.output_tokens * self.output
        ) / _MILLION
        return cost * self.batch_factor if batched else cost


def tariff(provider: str, model: str, overrides: Mapping[str, Price] | None = None) -> Tariff | None:
    """The price of `model`, the user's own first; None if there is none.

    A compatible server's price is never guessed from its model's name.
    """
    own = (overrides or {}).get(model)
    table = _table()
    if own is not None:
        cached = own.input if own.cached_input is None else own.cached_input
        return Tariff(own.input, own.output, cached, own.input, table.batch_factor)
    entry = _entry(provider, model)
    if entry is None:
        return None
    return Tariff(
        entry.input,
        entry.output,
        entry.input if entry.cached_input is None else entry.cached_input,
        entry.input if entry.cache_write is None else entry.cache_write,
        table.batch_factor,
    )


def known_window(provider: str, model: str) -> int | None:
    """The most tokens that a request to `model` may use at the listed price; None if unknown."""
    entry = _entry(provider, model)
    return entry.window if entry else None


def known_cache_from(provider: str, model: str) -> int | None:
    """The shortest prefix, in tokens, that the provider caches for `model`; None if unknown."""
    entry = _entry(provider, model)
    return entry.cache_from if entry else None


def price_date() -> str:
    """The date (ISO 8601) of the shipped prices."""
    return _table().date


def _entry(provider: str, model: str) -> _Entry | None:
    entries = {"openai": _table().openai, "anthropic": _table().anthropic}.get(provider, {})
    return entries.get(model) or entries.get(_DATE.sub("", model))


@functools.cache
def _table() -> _Table:
    text = files("ragstone.judge").joinpath("prices.toml").read_text("utf-8")
    return _Table.model_validate(tomllib.loads(text))
