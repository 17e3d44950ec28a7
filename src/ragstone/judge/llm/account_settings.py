"""Accounts of the judge and of its embeddings: service, address, and key or identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from ragstone.config import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.judge.llm.account import (
    EMBEDDINGS_KEY_VARIABLE,
    KEY_VARIABLE,
    PROVIDER_KEYS,
    Account,
    has_credentials,
    parse_address,
    parse_headers,
    provider_key,
)
from ragstone.judge.llm.federation import check_address, federation_of, has_job_identity
from ragstone.judge.llm.platforms import CREDENTIALS, PLATFORMS, address_of, platform_of

COMPATIBLE = "openai-compatible"
_BASE_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
_BASE_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")
_DEFAULT_EMBEDDINGS = "text-embedding-3-small"


def make_account(
    settings: JudgeSettings,
    provider: str,
    model: str,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None = None,
) -> Account:
    """Address, and key or identity. A key in OPENAI_API_KEY or ANTHROPIC_API_KEY is sent to that provider only."""
    if provider in PLATFORMS:
        return _platform_account(settings, provider, model, environ, tell_secret)
    url = settings.base_url or environ.get(_BASE_VARIABLES.get(provider, ""), "") or _BASE_URLS.get(provider)
    if not url:
        raise ConfigError(
            f"judge '{provider}:{model}' needs an address.",
            where="judge.base_url",
            hint="Set judge.base_url, for example http://localhost:11434/v1.",
        )
    own = PROVIDER_KEYS.get(provider)
    key = settings.api_key or (SecretStr(found) if (found := provider_key(provider, environ)) else None)
    federation = None
    if settings.auth == "oidc" or (settings.auth is None and key is None and has_job_identity(provider, environ)):
        if settings.api_key is not None:
            raise ConfigError(
                "judge.auth is 'oidc', and a key is set.",
                where="judge.auth",
                hint=f"Leave {KEY_VARIABLE} out, or 'oidc'.",
            )
        key, federation = None, federation_of(provider, environ, tell_secret)
    if key is None and own and federation is None:
        raise ConfigError(
            f"judge '{provider}:{model}' needs an API key, and none is set.",
            where="judge",
            hint=f"Set the environment variable {KEY_VARIABLE} or {own}, or use 'judge: offline', which needs none.",
        )
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError("the API key contains invalid characters (a line break?).", where=KEY_VARIABLE)
    address = parse_address(url.strip())
    if federation is not None:
        check_address(federation, address.base_url, address.query)
    return Account(
        service=provider,
        model=model,
        address=address,
        key=key,
        key_variable=KEY_VARIABLE if own is None or settings.api_key is not None else own,
        timeout_s=settings.timeout_s,
        connections=settings.concurrency,
        ca_bundle=Path(settings.ca_bundle) if settings.ca_bundle else None,
        federation=federation,
        headers=parse_headers(settings.headers),
    )


def _platform_account(
    settings: JudgeSettings,
    provider: str,
    model: str,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None,
) -> Account:
    """A cloud account, configured by the cloud's own variables; a key in the settings is an access token for it."""
    if settings.batch:
        raise ConfigError(
            f"judge '{provider}:{model}' does not support batches.", where="judge.batch", hint="Remove it."
        )
    token = settings.api_key.get_secret_value() if settings.api_key else provider_key(provider, environ)
    federation = None
    signed_in = token or has_credentials(provider, environ)
    if settings.auth == "oidc" or (settings.auth is None and not signed_in and has_job_identity(provider, environ)):
        token, federation = "", federation_of(provider, environ, tell_secret)
    platform = platform_of(provider, environ, has_token=bool(token))
    return Account(
        service=provider,
        model=model,
        address=parse_address(settings.base_url or address_of(provider, platform)),
        key=SecretStr(token) if token else None,
        key_variable=CREDENTIALS[provider],
        timeout_s=settings.timeout_s,
        connections=settings.concurrency,
        ca_bundle=Path(settings.ca_bundle) if settings.ca_bundle else None,
        federation=federation,
        platform=platform,
        headers=parse_headers(settings.headers),
    )


def embeddings_account(
    settings: JudgeSettings,
    account: Account,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None,
) -> Account | None:
    """The account for embeddings; None if words are compared instead.

    An address of their own gets its own key or none, never the judge's.
    """
    model = settings.embeddings or (_DEFAULT_EMBEDDINGS if account.service == "openai" else None)
    if settings.embeddings_base_url:
        return own_embeddings_account(settings, environ)
    if model is None:
        return None
    key = settings.embeddings_api_key
    if account.service == "anthropic" or account.platform is not None:
        model = _embeddings_beside(model)
        # Another service, with its own key or identity.
        update = {"api_key": key, "base_url": None, "headers": None, "auth": None}
        account = make_account(settings.model_copy(update=update), "openai", model, environ, tell_secret)
    own = replace(account, model=model, setting="judge.embeddings")
    if key is not None:
        own = replace(own, key=key, key_variable=EMBEDDINGS_KEY_VARIABLE, federation=None)
    deployment = _AZURE_DEPLOYMENT.fullmatch(own.address.base_url)
    if deployment:
        own = replace(own, address=replace(own.address, base_url=deployment.group(1) + model))
    return own


def own_embeddings_account(settings: JudgeSettings, environ: Mapping[str, str]) -> Account:
    model = (settings.embeddings or "").removeprefix(f"{COMPATIBLE}:").removeprefix("openai:").strip()
    if not model:
        raise ConfigError(
            "there is an address for embeddings, and no model for them.",
            where="judge.embeddings_base_url",
            hint="Set judge.embeddings to the name of the model.",
        )
    url = str(settings.embeddings_base_url).strip()
    parse_address(url, "judge.embeddings_base_url")
    update = {"api_key": settings.embeddings_api_key, "base_url": url, "headers": None, "auth": "key"}
    account = make_account(settings.model_copy(update=update), COMPATIBLE, model, environ)
    return replace(account, key_variable=EMBEDDINGS_KEY_VARIABLE, setting="judge.embeddings")


def _embeddings_beside(name: str) -> str:
    """The model in ``openai:MODEL``: OpenAI's embeddings beside a judge that has none."""
    service, _, model = name.partition(":")
    if service != "openai" or not model:
        raise ConfigError(
            f"'{name}' names no embeddings that an Anthropic judge can use.",
            where="judge.embeddings",
            hint=f"Write 'openai:{_DEFAULT_EMBEDDINGS}' and set OPENAI_API_KEY, or 'local:FOLDER', or leave it out.",
        )
    return model
