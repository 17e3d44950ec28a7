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
"""The date at the end of a snapshot's name, such as ``-2026-03-31``."""

NO_MODEL = "(?!)"
"""A regular expression that matches the name of no model."""

_Price = Annotated[float, Meta(ge=0)]


class ModelPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars per million tokens."""

    input: _Price
    output: _Price
    window: Annotated[int, Meta(ge=1024)]
    """How many tokens a request may use at this price."""
    cached_input: _Price | None = None
    """The price of input read from the provider's prompt cache; None: as `input`."""
    cache_write: _Price | None = None
    """The price of input written to the provider's prompt cache; None: as `input`."""
    cache_from: Annotated[int, Meta(ge=1)] | None = None
    """The shortest prefix, in tokens, that the provider caches; None if not known."""


class Effort(Struct, frozen=True, forbid_unknown_fields=True):
    """How to ask some models to reason as little as they can."""

    models: str
    """A regular expression for the names of the models, in lower case."""
    parameter_sets: tuple[dict[str, Any], ...]
    """Parameters of a request, least reasoning first; if the model refuses one set, the
    next is sent."""
    reasoning_tokens: int = 0
    """How many reasoning tokens a reply is assumed to take with the first set."""


NO_EFFORT = Effort(models=NO_MODEL, parameter_sets=())
"""For a model that is not asked to reason less."""


class JobIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """How a CI job signs in without a key."""

    audience: str
    """The audience that the job's ID token is requested for."""
    needed: tuple[str, ...]
    """The variables with the provider's ids that must be set."""
    optional: tuple[str, ...] = ()
    """Further variables with ids."""


class Cloud(Struct, frozen=True, forbid_unknown_fields=True):
    """The cloud that a provider's models run on."""

    needed: tuple[str, ...]
    """The variables that the SDK's client needs, that of the region first."""
    credentials: tuple[str, ...]
    """The variables with the cloud's own credentials."""
    base_url: str
    """The address of a region, with ``{region}`` for its name."""
    base_urls: dict[str, str] = {}
    """The addresses of regions that don't follow `base_url`."""


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider: how its judges are named and built, how Ragstone signs in to it, and
    what its models cost."""

    name: str
    example: str
    """An example of `judge.name`."""
    names: Literal["model", "file", "nothing"] = "model"
    """What follows the colon in `judge.name`."""
    label: str = "{provider} {model}"
    """The judge's name in reports."""
    build: str = "ragstone.judge.factory:build_llm"
    """The function that builds the judge of a model's name, the settings and
    `protocol.Surroundings`."""
    free: bool = False
    """Whether no call costs anything."""
    offline: bool = False
    """Whether it judges without a language model: the default rules don't block on
    metrics that such a judge judges unreliably."""

    api: Literal["openai", "openai-compatible", "anthropic"] | None = None
    """The protocol of an LLM service. Less is taken for granted of a compatible
    server."""
    base_url: str = ""
    base_url_variable: str = ""
    """The variable that replaces `base_url`."""
    key_variable: str = ""
    secret_variables: tuple[str, ...] = ()
    """Further variables with secrets."""
    credentials_variable: str = ""
    """The variable whose value signs in if there is no key."""
    parameters: dict[str, int] = {}
    """Parameters of every request, unless the settings have others."""
    embeddings: str | None = None
    """The embeddings model that is used unless the settings name another."""
    embeddings_by: str | None = None
    """The provider of the embeddings; None if it is this one."""
    cache_breakpoints: str = NO_MODEL
    """A regular expression for the models that must be told where the fixed part of a
    request ends."""
    long_lists: str = NO_MODEL
    """A regular expression for the models that can judge a long list of statements in
    one call."""
    job_identity: JobIdentity | None = None
    cloud: Cloud | None = None
    sign_in_hosts: tuple[str, ...] = ()
    """The hosts that exchange an identity or credentials for tokens."""

    efforts: tuple[Effort, ...] = ()
    """How models are asked to reason as little as they can; the first that matches
    counts."""
    prices: dict[str, ModelPrice] = {}

    def price(self, model: str) -> ModelPrice | None:
        """The listed price of `model`, or of the model that it is a dated snapshot of;
        None if neither is listed."""
        undated = _MODEL_DATE.sub("", model)
        return self.prices.get(model) or self.prices.get(undated)

    def effort(self, model: str, user_parameters: Mapping[str, object]) -> Effort:
        """How to ask `model` to reason as little as it can.

        NO_EFFORT if `user_parameters` already say how much to reason, if the model
        doesn't reason unless asked to, or if the model is not known.
        """
        for effort in self.efforts:
            if re.fullmatch(effort.models, model.casefold()):
                is_set_by_user = any(
                    parameters.keys() & user_parameters.keys()
                    for parameters in effort.parameter_sets
                )
                return NO_EFFORT if is_set_by_user else effort
        return NO_EFFORT

    def key(self, environ: Environ) -> str:
        """The key or token in the provider's own variable; empty if there is none."""
        return variable(self.key_variable, environ)

    def has_credentials(self, environ: Environ) -> bool:
        """Whether a key or other credentials are set in the environment."""
        credentials = variable(self.credentials_variable, environ)
        return bool(self.key(environ) or credentials)


PROVIDERS = tuple(
    sorted(
        file.name.removesuffix(".toml")
        for file in shipped("", __package__).iterdir()
        if file.name.endswith(".toml")
    )
)
"""The names of all providers, in alphabetical order."""


@functools.cache
def load_provider(name: str) -> Provider:
    """The provider called `name`, one of PROVIDERS."""
    table = read_table(f"{name}.toml", __package__)
    return msgspec.convert({"name": name, **table}, Provider)


def find_provider(name: str) -> Provider | None:
    """The provider called `name`; None for any other name, such as that of a judge of
    the user's own."""
    return load_provider(name) if name in PROVIDERS else None


def all_providers() -> Iterator[Provider]:
    """Every provider, in the order of PROVIDERS."""
    return map(load_provider, PROVIDERS)


def secret_variables() -> tuple[str, ...]:
    """The variables that hold a secret of any provider."""
    names: dict[str, None] = {}
    for provider in all_providers():
        names |= dict.fromkeys((provider.key_variable, *provider.secret_variables))
    return tuple(filter(None, names))


def credential_variables() -> tuple[str, ...]:
    """The variables that sign in to any provider: secrets, and paths of files with
    credentials."""
    variables = [provider.credentials_variable for provider in all_providers()]
    names = dict.fromkeys((*secret_variables(), *variables))
    return tuple(filter(None, names))


def variable(name: str, environ: Environ) -> str:
    """The value of a variable, stripped; empty if it is blank or not set."""
    return environ.get(name, "").strip()
