"""The names in the settings `judge.name` and `judge.embeddings`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstone.errors import ConfigError, suggestion
from ragstone.judge.providers import PROVIDERS, Provider, find_provider

if TYPE_CHECKING:
    from ragstone.judge.protocol import JudgeIdentity

FITTED = "fitted:"


def provider_of(name: str) -> Provider:
    """The provider in `name`, a judge's name in the settings. Raises ConfigError with a
    suggestion."""
    provider = find_provider(name.strip().partition(":")[0])
    if provider is None:
        # A model alone, or a misspelt provider.
        service, colon, model = name.strip().partition(":")
        close_providers = difflib.get_close_matches(service, PROVIDERS, n=1)
        hint = suggested_model(name.strip()) or suggestion(service, PROVIDERS)
        if colon and model and close_providers:
            hint = f"Did you mean '{close_providers[0]}:{model}'?"
        raise ConfigError(f"unknown judge '{name}'.", where="judge.name", hint=hint)
    return provider


def suggested_model(
    model: str, providers: Sequence[str] = ("openai", "anthropic")
) -> str | None:
    """``Did you mean 'openai:gpt-5.4-mini'?`` for a model that is nearly a listed one
    of `providers`."""
    judges: dict[str, str] = {}
    for provider in filter(None, map(find_provider, providers)):
        for listed in provider.prices:
            if "embedding" not in listed:
                judges[listed] = f"{provider.name}:{listed}"
    close_models = difflib.get_close_matches(model.lower(), judges, n=1)
    return f"Did you mean '{judges[close_models[0]]}'?" if close_models else None


def split_name(name: str) -> tuple[str, str]:
    """`openai:gpt-x` as ("openai", "gpt-x"), `offline` as ("offline", ""). Raises
    ConfigError with a suggestion."""
    provider = provider_of(name)
    _, colon, model = name.strip().partition(":")
    model = model.strip()
    if provider.names == "nothing":
        if colon:
            raise ConfigError(
                f"the {provider.name} judge takes no model, found '{name}'.",
                where="judge.name",
                hint=f"Use '{provider.name}'.",
            )
        return provider.name, ""
    if not model:
        raise ConfigError(
            f"judge '{name}' names no {provider.names}.",
            where="judge.name",
            hint=f"Write for example '{provider.example}'.",
        )
    return provider.name, model


_SNAPSHOT = re.compile(
    r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest|v\d+(?::\d+)?))+$"
)


def other_models(judge: JudgeIdentity, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that replies reported which are not the judge's by another
    date or path.

    None for names that are the user's own: of a deployment, or an inference profile.
    """
    if judge.model.startswith("arn:") or re.search(
        r"/openai/deployments/|\.azure\.com\b", judge.endpoint or ""
    ):
        return ()
    own = _base_name(judge.model)
    return tuple(name for name in names if _base_name(name) != own)


def _base_name(model: str) -> str:
    name = (
        model.casefold()
        .rpartition("/")[2]
        .removesuffix(".gguf")
        .rpartition("anthropic.")[2]
    )
    return _SNAPSHOT.sub("", name)
