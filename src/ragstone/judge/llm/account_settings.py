"""Accounts of the judge and of its embeddings: service, address, and key or
identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from ragstone.errors import ConfigError
from ragstone.judge.llm.account import (
    EMBEDDINGS_KEY_VARIABLE,
    KEY_VARIABLE,
    Account,
    Address,
    TokenStore,
    parse_address,
    parse_headers,
)
from ragstone.judge.llm.sign_in import (
    PERMISSION,
    REQUEST_TOKEN,
    REQUEST_URL,
    read_variables,
)
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.providers import Provider, variable
from ragstone.settings.settings import JudgeSettings

COMPATIBLE = "openai-compatible"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")


def make_account(
    settings: JudgeSettings,
    name: str,
    model: str,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None = None,
) -> Account:
    """Address, and key or identity, at the provider called `name`.

    A key in the provider's own variable is sent to that provider only. A cloud account
    is configured by the cloud's variables; a key in the settings is an access token for
    it. `tell_secret` is called with each token of the SDK.
    """
    provider = provider_of(name)
    cloud, own = provider.cloud, provider.key_variable
    key = settings.api_key or (
        SecretStr(own_key) if (own_key := provider.key(environ)) else None
    )
    signed_in = key is not None or provider.has_credentials(environ)
    variables: dict[str, SecretStr] = {}
    identity = provider.job_identity
    ids = () if identity is None or signed_in else identity.needed
    as_job = any(variable(name, environ) for name in ids)
    if as_job and identity is not None:
        variables = read_variables(
            ids,
            identity.optional,
            environ,
            "Set it under env, as in the provider's console.",
        )
        variables |= read_variables(
            (REQUEST_URL, REQUEST_TOKEN), (), environ, PERMISSION
        )
    elif cloud is not None:
        credentials = () if key else cloud.credentials
        variables = read_variables(
            cloud.needed, credentials, environ, "Set it in the environment."
        )
    if key is None and own and not as_job and cloud is None:
        raise ConfigError(
            f"judge '{name}:{model}' needs an API key, but none is set.",
            where="judge",
            hint=f"Set the environment variable {KEY_VARIABLE} or {own}, or use 'judge: offline', which needs none.",
        )
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError(
            "the API key contains invalid characters (a line break?).",
            where=KEY_VARIABLE,
        )
    listed = provider.base_url
    if cloud is not None:
        region = variables[cloud.needed[0]].get_secret_value()
        listed = cloud.base_urls.get(region) or cloud.base_url.format(region=region)
    own_url = variable(provider.base_url_variable or "", environ)
    url = settings.base_url or own_url or listed
    if not url:
        raise ConfigError(
            f"judge '{name}:{model}' needs an address.",
            where="judge.base_url",
            hint="Set judge.base_url, for example http://localhost:11434/v1.",
        )
    address = parse_address(url.strip())
    if as_job:
        _check_takes_tokens(address)
    # Where the key comes from, or the credentials in place of one, for messages.
    key_variable = KEY_VARIABLE if own is None or settings.api_key else own
    if cloud is not None and key is None:
        key_variable = " and ".join(cloud.credentials)
    return Account(
        provider=provider,
        model=model,
        address=address,
        key=key,
        key_variable=key_variable,
        timeout_s=settings.timeout_s,
        connections=settings.concurrency,
        ca_bundle=Path(settings.ca_bundle) if settings.ca_bundle else None,
        variables=variables,
        as_job=as_job,
        tokens=TokenStore(tell_secret) if tell_secret is not None else TokenStore(),
        headers=parse_headers(settings.headers),
    )


def _check_takes_tokens(address: Address) -> None:
    """Raise ConfigError unless a token for the provider's own API may be sent there."""
    secure = address.base_url.startswith("https://") or address.host in _LOOPBACK
    if not secure or "api-version" in address.query:
        raise ConfigError(
            "the job's identity would be used, but the judge's address is not an https address of the provider.",
            where="judge.base_url",
            hint="Tokens are only sent over TLS, and Azure accepts none of OpenAI's: use a key there.",
        )


def has_job_identity(provider: Provider, environ: Mapping[str, str]) -> bool:
    """Whether the job may ask for an ID token, and the ids that `provider` needs are
    set."""
    identity = provider.job_identity
    return identity is not None and all(
        variable(name, environ)
        for name in (*identity.needed, REQUEST_URL, REQUEST_TOKEN)
    )


def judge_hosts(settings: JudgeSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts, each with its port, that the judge, its embeddings and signing in to
    them need.

    Raises ConfigError where building the judge does.
    """
    service, model = split_name(settings.name)
    if provider_of(service).api is None:
        accounts: list[Account | None] = []
        if settings.embeddings_base_url:
            accounts.append(own_embeddings_account(settings, "", environ))
    else:
        own = make_account(settings, service, model, environ)
        accounts = [own, embeddings_account(settings, own, environ, None)]
    hosts: list[str] = []
    for account in filter(None, accounts):
        parts, cloud = urlsplit(account.address.base_url), account.provider.cloud
        port = parts.port or (443 if parts.scheme == "https" else 80)
        hosts.append(f"{parts.hostname}:{port}")
        if account.as_job or (cloud is not None and account.key is None):
            region = account.variable(cloud.needed[0]) if cloud is not None else None
            sign_in = account.provider.sign_in_hosts
            hosts += [f"{host.format(region=region)}:443" for host in sign_in]
    return tuple(dict.fromkeys(hosts))


def needs_key(settings: JudgeSettings, environ: Mapping[str, str]) -> bool:
    """Whether the judge is a hosted one, and there is neither a key nor a job identity.

    Your own server may not need a key.
    """
    provider = provider_of(settings.name)
    if settings.api_key is not None or (
        provider.key_variable is None and provider.cloud is None
    ):
        return False
    return not (
        provider.has_credentials(environ) or has_job_identity(provider, environ)
    )


def embeddings_named(
    settings: JudgeSettings, provider: Provider
) -> tuple[str, str] | None:
    """Provider and model of the embeddings beside a judge of `provider`; None if words
    are compared instead.

    Raises ConfigError for a name that such a judge can't use.
    """
    name = settings.embeddings or provider.embeddings
    if settings.embeddings_base_url:
        model = (
            (settings.embeddings or "")
            .removeprefix(f"{COMPATIBLE}:")
            .removeprefix("openai:")
            .strip()
        )
        if not model:
            raise ConfigError(
                "there is an address for embeddings, but no model.",
                where="judge.embeddings_base_url",
                hint="Set judge.embeddings to the name of the model.",
            )
        return COMPATIBLE, model
    if name is None or provider.embeddings_by is None:
        return None if name is None else (provider.name, name)
    source = provider_of(provider.embeddings_by)
    service, _, model = name.partition(":")
    if service != source.name or not model:
        raise ConfigError(
            f"'{name}' names no embeddings that judge '{provider.name}' can use.",
            where="judge.embeddings",
            hint=f"Write '{source.name}:{source.embeddings}' and set {source.key_variable}, or leave it out.",
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
        update = {"api_key": key, "base_url": None, "headers": None}
        account = make_account(
            settings.model_copy(update=update), service, model, environ, tell_secret
        )
    own = replace(account, model=model, setting="judge.embeddings")
    if key is not None:
        own = replace(own, key=key, key_variable=EMBEDDINGS_KEY_VARIABLE, as_job=False)
    deployment = _AZURE_DEPLOYMENT.fullmatch(own.address.base_url)
    if deployment:
        own = replace(
            own, address=replace(own.address, base_url=deployment.group(1) + model)
        )
    return own


def own_embeddings_account(
    settings: JudgeSettings, model: str, environ: Mapping[str, str]
) -> Account:
    """The account at `judge.embeddings_base_url`."""
    url = str(settings.embeddings_base_url).strip()
    parse_address(url, "judge.embeddings_base_url")
    key = settings.embeddings_api_key
    update = {"api_key": key, "base_url": url, "headers": None}
    account = make_account(
        settings.model_copy(update=update), COMPATIBLE, model, environ
    )
    return replace(
        account, key_variable=EMBEDDINGS_KEY_VARIABLE, setting="judge.embeddings"
    )
