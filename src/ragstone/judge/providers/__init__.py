"""The providers of judges: one TOML file each, named like the provider, with all that
Ragstone knows about it.

A provider that speaks OpenAI's or Anthropic's protocol needs no code; another judge
names the function that builds it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ragstone.files import read_table, shipped

Environ = Mapping[str, str]
"""Variables of the environment."""

_MODEL_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


NO_MODEL = "(?!)"
"""A pattern that matches the name of no model."""

_Price = Annotated[float, Meta(ge=0)]


class ModelPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens. `window`: tokens that a request may use at this
    price.

    `cache_from`: the shortest prefix, in tokens, that the provider caches.
    """

    input: _Price
    output: _Price
    window: Annotated[int, Meta(ge=1024)]
    cached_input: _Price | None = None
    cache_write: _Price | None = None
    cache_from: Annotated[int, Meta(ge=1)] | None = None


class Effort(Struct, frozen=True, forbid_unknown_fields=True):
    """How little the models that `models` (a regular expression) matches can be asked
    to reason.

    `ways` are parameters for it, the least reasoning first; one that a model refuses is
    replaced by the next. `tokens` are those that a reply is assumed to be reasoned
    about with the first.
    """

    models: str
    ways: tuple[dict[str, Any], ...]
    tokens: int = 0


UNASKED = Effort(models=NO_MODEL, ways=())
"""The models that aren't asked to reason less."""


class JobIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """How a CI job signs in without a key: the token's audience, and the variables with
    the provider's ids."""

    audience: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()


class Cloud(Struct, frozen=True, forbid_unknown_fields=True):
    """A cloud: the variables that its SDK's client needs, the region's first, and those
    with credentials.

    `base_urls` are the addresses of regions that don't follow `base_url`.
    """

    needed: tuple[str, ...]
    credentials: tuple[str, ...]
    base_url: str
    base_urls: dict[str, str] = {}


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider: how its judges are named and built, what signs in to it, what its
    models cost.

    `names` is what follows the colon in `judge.name`. `build` is a function of the
    model's name, the settings and `protocol.Surroundings`. `free`: no call costs
    anything. `offline`: it judges without a language model; the default rules don't
    block on metrics that it judges unreliably. `api` is the protocol of an LLM service;
    of a compatible server less is taken for granted. `cache_breakpoints`: the models
    that must be told where the fixed part of a request ends, and `long_lists` those
    that judge fifty statements in one call. `efforts`: how models are asked to reason
    as little as they can. `embeddings` are used unless the settings name others;
    `embeddings_by` is the provider whose embeddings stand beside a model without any.
    `credentials_variable` names what signs in if there is no key, and `sign_in_hosts`
    where.
    """

    name: str
    example: str
    names: Literal["model", "file", "nothing"] = "model"
    label: str = "{provider} {model}"
    build: str = "ragstone.judge.factory:build_llm"
    free: bool = False
    offline: bool = False

    api: Literal["openai", "openai-compatible", "anthropic"] | None = None
    base_url: str = ""
    base_url_variable: str = ""
    key_variable: str = ""
    secret_variables: tuple[str, ...] = ()
    credentials_variable: str = ""
    parameters: dict[str, int] = {}
    embeddings: str | None = None
    embeddings_by: str | None = None
    cache_breakpoints: str = NO_MODEL
    long_lists: str = NO_MODEL
    job_identity: JobIdentity | None = None
    cloud: Cloud | None = None
    sign_in_hosts: tuple[str, ...] = ()

    efforts: tuple[Effort, ...] = ()
    prices: dict[str, ModelPrice] = {}

    def price(self, model: str) -> ModelPrice | None:
        """The listed price of `model`, or of the model that it is a dated snapshot
        of."""
        undated = _MODEL_DATE.sub("", model)
        return self.prices.get(model) or self.prices.get(undated)

    def effort(self, model: str, parameters: Mapping[str, object]) -> Effort:
        """How to ask `model` to reason as little as it can.

        In no way if `parameters`, the user's, say how much; if it doesn't reason unless
        asked to; or if it is not known.
        """
        for effort in self.efforts:
            if re.fullmatch(effort.models, model.casefold()):
                is_set = any(way.keys() & parameters.keys() for way in effort.ways)
                return UNASKED if is_set else effort
        return UNASKED

    def key(self, environ: Environ) -> str:
        """The key or token in the provider's own variable; empty if there is none."""
        return variable(self.key_variable, environ)

    def has_credentials(self, environ: Environ) -> bool:
        """Whether the environment names a key or other credentials."""
        credentials = variable(self.credentials_variable, environ)
        return bool(self.key(environ) or credentials)


PROVIDERS = tuple(
    sorted(
        file.name[:-5]
        for file in shipped("", __package__).iterdir()
        if file.name.endswith(".toml")
    )
)


@functools.cache
def load_provider(name: str) -> Provider:
    """One of PROVIDERS."""
    table = read_table(f"{name}.toml", __package__)
    return msgspec.convert({"name": name, **table}, Provider)


def find_provider(name: str) -> Provider | None:
    """The provider called `name`; None for any other name, such as that of a judge of
    the user's own."""
    return load_provider(name) if name in PROVIDERS else None


def all_providers() -> Iterator[Provider]:
    """Every provider, by name."""
    return map(load_provider, PROVIDERS)


def secret_variables() -> tuple[str, ...]:
    """The variables that hold a provider's secret."""
    names: dict[str, None] = {}
    for provider in all_providers():
        names |= dict.fromkeys((provider.key_variable, *provider.secret_variables))
    return tuple(filter(None, names))


def credential_variables() -> tuple[str, ...]:
    """The variables that sign in to a provider: secrets, and the names of files with
    credentials."""
    files = [provider.credentials_variable for provider in all_providers()]
    names = dict.fromkeys((*secret_variables(), *files))
    return tuple(filter(None, names))


def variable(name: str, environ: Environ) -> str:
    """The value of a variable, stripped; a blank one counts as not set."""
    return environ.get(name, "").strip()
