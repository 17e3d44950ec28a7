"""Names of judges, such as those in the settings `judge.name` and
`judge.embeddings`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstone.errors import ConfigError, suggestion
from ragstone.judge.providers import PROVIDERS, Provider, find_provider

if TYPE_CHECKING:
    from ragstone.judge.protocol import JudgeIdentity

FITTED_PREFIX = "fitted:"


def provider_of(name: str) -> Provider:
    """The provider in `name`, a judge's name in the settings. Raises ConfigError, with
    a suggestion, if there is no such provider."""
    name = name.strip()
    provider_name, _, model = name.partition(":")
    provider = find_provider(provider_name)
    if provider is None:
        # Perhaps the name of a model without its provider.
        hint = suggested_model(name) or suggestion(provider_name, PROVIDERS)
        close_providers = difflib.get_close_matches(provider_name, PROVIDERS, n=1)
        if model and close_providers:
            hint = f"Did you mean '{close_providers[0]}:{model}'?"
        raise ConfigError(f"unknown judge '{name}'.", where="judge.name", hint=hint)
    return provider


def suggested_model(
    model: str, providers: Sequence[str] = ("openai", "anthropic")
) -> str | None:
    """A suggestion such as ``Did you mean 'openai:gpt-5.4-mini'?``, if `model` is
    spelt nearly like a listed model of `providers`; else None."""
    judge_names: dict[str, str] = {}
    for provider in filter(None, map(find_provider, providers)):
        for listed_model in provider.prices:
            if "embedding" not in listed_model:
                judge_names[listed_model] = f"{provider.name}:{listed_model}"
    close_models = difflib.get_close_matches(model.lower(), judge_names, n=1)
    if not close_models:
        return None
    return f"Did you mean '{judge_names[close_models[0]]}'?"


def split_name(name: str) -> tuple[str, str]:
    """The provider's name and the model, or file, in a judge's name: ("openai",
    "gpt-x") for `openai:gpt-x`, ("offline", "") for `offline`.

    Raises ConfigError, with a suggestion, for a name that is not valid.
    """
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
"""The dates and versions at the end of a model's name."""
_AZURE = re.compile(r"/openai/deployments/|\.azure\.com\b")


def other_models(judge: JudgeIdentity, names: Sequence[str]) -> tuple[str, ...]:
    """Those of `names`, the models that replies reported, which are not the judge's
    model with another date or path.

    Empty if the judge's model has a name of the user's own: of a deployment at Azure,
    or an inference profile at Amazon.
    """
    is_inference_profile = judge.model.startswith("arn:")
    if is_inference_profile or _AZURE.search(judge.endpoint or ""):
        return ()
    base_name = _base_name(judge.model)
    return tuple(name for name in names if _base_name(name) != base_name)


def _base_name(model: str) -> str:
    """A model's name without folder, file type, vendor, date and version."""
    name = (
        model.casefold()
        .rpartition("/")[2]
        .removesuffix(".gguf")
        .rpartition("anthropic.")[2]
    )
    return _SNAPSHOT.sub("", name)
