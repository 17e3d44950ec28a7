"""Accounts of the judge and of its embeddings: service, address, and key or identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from ragstone.config.settings import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.judge.llm.account import (
    EMBEDDINGS_KEY_VARIABLE,
    KEY_VARIABLE,
    Account,
    parse_address,
    parse_headers,
)
from ragstone.judge.llm.clouds import cloud_account, cloud_address
from ragstone.judge.llm.federation import check_address, federation_of, has_job_identity
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.providers import Provider, first_given

COMPATIBLE = "openai-compatible"
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")


def make_account(
    settings: JudgeSettings,
    name: str,
    model: str,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None = None,
) -> Account:
    """Address, and key or identity, at the provider called `name`.

    A key in the provider's own variable is sent to that provider only. A cloud account is configured by the cloud's
    variables; a key in the settings is an access token for it.
    """
    provider = provider_of(name)
    cloud, own = provider.cloud, provider.key_variable
    key = settings.api_key or (SecretStr(found) if (found := provider.key(environ)) else None)
    signed_in = key is not None or provider.has_credentials(environ)
    federation = None
    if settings.auth == "oidc" or (settings.auth is None and not signed_in and has_job_identity(name, environ)):
        if settings.api_key is not None and cloud is None:
            raise ConfigError(
                "judge.auth is 'oidc', but a key is set.",
                where="judge.auth",
                hint=f"Remove {KEY_VARIABLE} or judge.auth.",
            )
        key, federation = None, federation_of(name, environ, tell_secret)
    if key is None and own and federation is None and cloud is None:
        raise ConfigError(
            f"judge '{name}:{model}' needs an API key, but none is set.",
            where="judge",
            hint=f"Set the environment variable {KEY_VARIABLE} or {own}, or use 'judge: offline', which needs none.",
        )
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError("the API key contains invalid characters (a line break?).", where=KEY_VARIABLE)
    in_cloud = cloud_account(provider, cloud, environ, has_token=key is not None) if cloud else None
    listed = cloud_address(cloud, in_cloud.region) if cloud and in_cloud else provider.base_url
    url = settings.base_url or first_given((provider.base_url_variable or "",), environ) or listed
    if not url:
        raise ConfigError(
            f"judge '{name}:{model}' needs an address.",
            where="judge.base_url",
            hint="Set judge.base_url, for example http://localhost:11434/v1.",
        )
    address = parse_address(url.strip())
    if federation is not None and cloud is None:
        check_address(federation, address.base_url, address.query)
    return Account(
        provider=provider,
        model=model,
        address=address,
        key=key,
        key_variable=cloud.credentials if cloud else KEY_VARIABLE if own is None or settings.api_key else own,
        timeout_s=settings.timeout_s,
        connections=settings.concurrency,
        ca_bundle=Path(settings.ca_bundle) if settings.ca_bundle else None,
        federation=federation,
        cloud=in_cloud,
        headers=parse_headers(settings.headers),
    )


def judge_hosts(settings: JudgeSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts, each with its port, that the judge, its embeddings and signing in to them need.

    Raises ConfigError where building the judge does.
    """
    service, model = split_name(settings.name)
    if provider_of(service).api is None:
        asked = [own_embeddings_account(settings, "", environ)] if settings.embeddings_base_url else []
    else:
        account = make_account(settings, service, model, environ)
        embeddings = embeddings_account(settings, account, environ, None)
        asked = [account] if embeddings is None else [account, embeddings]
    found: dict[str, None] = {}
    for one in asked:
        parts = urlsplit(one.address.base_url)
        found[f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"] = None
        signs_in = one.federation is not None or (one.cloud is not None and one.key is None)
        for host in one.provider.sign_in_hosts if signs_in else ():
            found[f"{host.format(region=one.cloud.region if one.cloud is not None else '')}:443"] = None
    return tuple(found)


def needs_key(settings: JudgeSettings, environ: Mapping[str, str]) -> bool:
    """Whether the judge is a hosted one, and there is neither a key nor a job identity.

    Your own server may not need a key.
    """
    provider = provider_of(settings.name)
    if settings.api_key is not None or (provider.key_variable is None and provider.cloud is None):
        return False
    hosted = provider.cloud is None
    has_key = provider.has_credentials(environ) and not (hosted and settings.auth == "oidc")
    return not has_key and ((hosted and settings.auth == "key") or not has_job_identity(provider.name, environ))


def embeddings_named(settings: JudgeSettings, provider: Provider) -> tuple[str, str] | None:
    """Provider and model of the embeddings beside a judge of `provider`; None if words are compared instead.

    Raises ConfigError for a name that such a judge can't use.
    """
    name = settings.embeddings or provider.embeddings
    if settings.embeddings_base_url:
        model = (settings.embeddings or "").removeprefix(f"{COMPATIBLE}:").removeprefix("openai:").strip()
        if not model:
            raise ConfigError(
                "there is an address for embeddings, but no model.",
                where="judge.embeddings_base_url",
                hint="Set judge.embeddings to the name of the model.",
            )
        return COMPATIBLE, model
    if name is None or provider.embeddings_by is None:
        return None if name is None else (provider.name, name)
    other = provider_of(provider.embeddings_by)
    service, _, model = name.partition(":")
    if service != other.name or not model:
        raise ConfigError(
            f"'{name}' names no embeddings that judge '{provider.name}' can use.",
            where="judge.embeddings",
            hint=f"Write '{other.name}:{other.embeddings}' and set {other.key_variable}, or leave it out.",
        )
    return service, model


def embeddings_account(
    settings: JudgeSettings,
    account: Account,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None,
) -> Account | None:
    """The account for embeddings; None if words are compared instead.

    An address of their own gets its own key or none, never the judge's.
    """
    named = embeddings_named(settings, account.provider)
    if named is None:
        return None
    service, model = named
    if settings.embeddings_base_url:
        return own_embeddings_account(settings, model, environ)
    key = settings.embeddings_api_key
    if service != account.service:
        # With its own key or identity.
        update = {"api_key": key, "base_url": None, "headers": None, "auth": None}
        account = make_account(settings.model_copy(update=update), service, model, environ, tell_secret)
    own = replace(account, model=model, setting="judge.embeddings")
    if key is not None:
        own = replace(own, key=key, key_variable=EMBEDDINGS_KEY_VARIABLE, federation=None)
    deployment = _AZURE_DEPLOYMENT.fullmatch(own.address.base_url)
    if deployment:
        own = replace(own, address=replace(own.address, base_url=deployment.group(1) + model))
    return own


def own_embeddings_account(settings: JudgeSettings, model: str, environ: Mapping[str, str]) -> Account:
    """The account at `judge.embeddings_base_url`."""
    url = str(settings.embeddings_base_url).strip()
    parse_address(url, "judge.embeddings_base_url")
    update = {"api_key": settings.embeddings_api_key, "base_url": url, "headers": None, "auth": "key"}
    account = make_account(settings.model_copy(update=update), COMPATIBLE, model, environ)
    return replace(account, key_variable=EMBEDDINGS_KEY_VARIABLE, setting="judge.embeddings")
