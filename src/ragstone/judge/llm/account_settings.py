"""Accounts of the judge and of its embeddings: service, address, and key or
identity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace
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
from ragstone.judge.protocol import TellSecret, ignore_secret
from ragstone.judge.providers import Environ, JobIdentity, Provider, variable
from ragstone.settings.settings import JudgeSettings

COMPATIBLE = "openai-compatible"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")


def make_account(
    settings: JudgeSettings,
    name: str,
    model: str,
    environ: Environ,
    tell_secret: TellSecret = ignore_secret,
) -> Account:
    """Address, and key or identity, at the provider called `name`.

    A key in the provider's own variable is sent to that provider only. A cloud account
    is configured by the cloud's variables; a key in the settings is an access token for
    it. `tell_secret` is called with each token of the SDK.
    """
    provider = provider_of(name)
    cloud = provider.cloud
    key, key_variable = _key(settings, provider, environ)
    identity = None if key else _job_identity(provider, environ)
    if key is None and cloud is not None:
        key_variable = " and ".join(cloud.credentials)
    elif key is None and identity is None and provider.key_variable:
        raise ConfigError(
            f"judge '{name}:{model}' needs an API key, but none is set.",
            where="judge",
            hint=f"Set the environment variable {KEY_VARIABLE} or {key_variable}, or use 'judge: offline', which "
            "needs none.",
        )
    if identity is not None:
        variables = _job_variables(identity, environ)
    elif cloud is not None:
        credentials = () if key else cloud.credentials
        hint = "Set it in the environment."
        variables = read_variables(cloud.needed, credentials, environ, hint)
    else:
        variables = {}
    url = _url(settings, provider, variables, environ)
    if not url:
        raise ConfigError(
            f"judge '{name}:{model}' needs an address.",
            where="judge.base_url",
            hint="Set judge.base_url, for example http://localhost:11434/v1.",
        )
    address = parse_address(url)
    if identity is not None:
        _check_takes_tokens(address)
    return Account(
        provider=provider,
        model=model,
        address=address,
        key=key,
        key_variable=key_variable,
        timeout_s=settings.timeout_s,
        connections=settings.concurrency,
        variables=variables,
        job_identity=identity,
        tokens=TokenStore(tell_secret),
        headers=parse_headers(settings.headers),
    )


def _key(
    settings: JudgeSettings, provider: Provider, environ: Environ
) -> tuple[SecretStr | None, str]:
    """The key, if there is one, and the variable for it. Raises ConfigError."""
    key, key_variable = settings.api_key, KEY_VARIABLE
    if not key and provider.key_variable:
        key, key_variable = SecretStr(provider.key(environ)), provider.key_variable
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError(
            "the API key contains invalid characters (a line break?).",
            where=KEY_VARIABLE,
        )
    return key or None, key_variable


def _job_variables(identity: JobIdentity, environ: Environ) -> dict[str, SecretStr]:
    hint = "Set it under env, as in the provider's console."
    ids = read_variables(identity.needed, identity.optional, environ, hint)
    request = read_variables((REQUEST_URL, REQUEST_TOKEN), (), environ, PERMISSION)
    return ids | request


def _job_identity(provider: Provider, environ: Environ) -> JobIdentity | None:
    """The job's identity, if one of its ids is set and no other credentials are."""
    identity = provider.job_identity
    if identity is None or provider.has_credentials(environ):
        return None
    ids = [variable(name, environ) for name in identity.needed]
    return identity if any(ids) else None


def _url(
    settings: JudgeSettings,
    provider: Provider,
    variables: Mapping[str, SecretStr],
    environ: Environ,
) -> str:
    """The address in the settings, in the provider's own variable, of the cloud's
    region, or of the provider; empty if there is none."""
    own_url = variable(provider.base_url_variable, environ)
    url = settings.base_url or own_url or provider.base_url
    cloud = provider.cloud
    if not url and cloud is not None:
        region = variables[cloud.needed[0]].get_secret_value()
        url = cloud.base_urls.get(region) or cloud.base_url.format(region=region)
    return url.strip()


def _check_takes_tokens(address: Address) -> None:
    """Raise ConfigError unless a token for the provider's own API may be sent there."""
    secure = address.base_url.startswith("https://") or address.host in _LOOPBACK
    if not secure or "api-version" in address.query:
        raise ConfigError(
            "the job's identity would be used, but the judge's address is not an https address of the provider.",
            where="judge.base_url",
            hint="Tokens are only sent over TLS, and Azure accepts none of OpenAI's: use a key there.",
        )


def has_job_identity(provider: Provider, environ: Environ) -> bool:
    """Whether the job may ask for an ID token, and the ids that `provider` needs are
    set."""
    identity = provider.job_identity
    return identity is not None and all(
        variable(name, environ)
        for name in (*identity.needed, REQUEST_URL, REQUEST_TOKEN)
    )


def judge_hosts(settings: JudgeSettings, environ: Environ) -> tuple[str, ...]:
    """The hosts, each with its port, that the judge, its embeddings and signing in to
    them need.

    Raises ConfigError where building the judge does.
    """
    service, model = split_name(settings.name)
    if provider_of(service).api is None:
        return ()
    own = make_account(settings, service, model, environ)
    embeddings = embeddings_account(settings, own, environ)
    hosts: list[str] = []
    for account in filter(None, (own, embeddings)):
        parts, cloud = urlsplit(account.address.base_url), account.provider.cloud
        port = parts.port or (443 if parts.scheme == "https" else 80)
        hosts.append(f"{parts.hostname}:{port}")
        if account.job_identity is not None or (
            cloud is not None and account.key is None
        ):
            region = account.variable(cloud.needed[0]) if cloud is not None else None
            sign_in = account.provider.sign_in_hosts
            hosts += [f"{host.format(region=region)}:443" for host in sign_in]
    return tuple(dict.fromkeys(hosts))


def needs_key(settings: JudgeSettings, environ: Environ) -> bool:
    """Whether the judge is a hosted one, and there is neither a key nor a job identity.

    Your own server may not need a key.
    """
    provider = provider_of(settings.name)
    takes_key = bool(provider.key_variable) or provider.cloud is not None
    signs_in = (
        settings.api_key is not None
        or provider.has_credentials(environ)
        or has_job_identity(provider, environ)
    )
    return takes_key and not signs_in


def embeddings_named(
    settings: JudgeSettings, provider: Provider
) -> tuple[str, str] | None:
    """Provider and model of the embeddings beside a judge of `provider`; None if words
    are compared instead.

    Raises ConfigError for a name that such a judge can't use.
    """
    name = settings.embeddings or provider.embeddings
    if settings.embeddings_base_url:
        model = settings.embeddings or ""
        for prefix in (f"{COMPATIBLE}:", "openai:"):
            model = model.removeprefix(prefix)
        model = model.strip()
        if not model:
            raise ConfigError(
                "there is an address for embeddings, but no model.",
                where="judge.embeddings_base_url",
                hint="Set judge.embeddings to the name of the model.",
            )
        return COMPATIBLE, model
    if name is None:
        return None
    if provider.embeddings_by is None:
        return provider.name, name
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
    environ: Environ,
    tell_secret: TellSecret = ignore_secret,
) -> Account | None:
    """The account for embeddings; None if words are compared instead.

    Another service or address gets its own key, identity or none, never the judge's.
    """
    named = embeddings_named(settings, account.provider)
    if named is None:
        return None
    service, model = named
    key, url = settings.embeddings_api_key, settings.embeddings_base_url
    if url:
        parse_address(url.strip(), "judge.embeddings_base_url")
    if url or service != account.service:
        update = {"api_key": key, "base_url": url, "headers": None}
        own_settings = settings.model_copy(update=update)
        account = make_account(
            own_settings,
            service,
            model,
            environ,
            tell_secret,
        )
    account = replace(account, model=model, setting="judge.embeddings")
    if url or key is not None:
        variable_of_key = EMBEDDINGS_KEY_VARIABLE
        account = replace(
            account, key=key, key_variable=variable_of_key, job_identity=None
        )
    deployment = _AZURE_DEPLOYMENT.fullmatch(account.address.base_url)
    if deployment and not url:
        address = replace(account.address, base_url=deployment[1] + model)
        account = replace(account, address=address)
    return account
