"""Makes the accounts of the judge and of its embeddings from the settings and the
environment."""

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
    PERMISSION_HINT,
    REQUEST_TOKEN,
    REQUEST_URL,
    read_variables,
)
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import TellSecret, ignore_secret
from ragstone.judge.providers import Environ, JobIdentity, Provider, variable
from ragstone.settings.settings import JudgeSettings

COMPATIBLE = "openai-compatible"
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")


def make_account(
    settings: JudgeSettings,
    provider_name: str,
    model: str,
    environ: Environ,
    tell_secret: TellSecret = ignore_secret,
) -> Account:
    """The account at a provider, with an address, and a key or an identity.

    A key in the provider's own variable is sent to that provider only. A cloud account
    is configured by the cloud's variables; a key in the settings is an access token for
    it. `tell_secret` is called with each token that the SDK gets. Raises ConfigError if
    the key or the address is missing, or not valid.
    """
    provider = provider_of(provider_name)
    cloud = provider.cloud
    key, key_variable = _key(settings, provider, environ)
    identity = None if key else _job_identity(provider, environ)
    if key is None and cloud is not None:
        key_variable = " and ".join(cloud.credentials)
    elif key is None and identity is None and provider.key_variable:
        raise ConfigError(
            f"judge '{provider_name}:{model}' needs an API key, but none is set.",
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
            f"judge '{provider_name}:{model}' needs an address.",
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
    """The key, None if there is none, and the variable that has it, or could have it.
    Raises ConfigError for a key that can't be sent."""
    key = settings.api_key
    key_variable = KEY_VARIABLE
    if not key and provider.key_variable:
        key = SecretStr(provider.key(environ))
        key_variable = provider.key_variable
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError(
            "the API key contains characters that can't be sent, such as a line break.",
            where=key_variable,
            hint="Copy the key again, without white space around it.",
        )
    return key or None, key_variable


def _job_variables(identity: JobIdentity, environ: Environ) -> dict[str, SecretStr]:
    """The provider's ids, and the variables that an ID token is requested with. Raises
    ConfigError if one is missing."""
    hint = "Set it under `env` to the id that the provider's console shows."
    ids = read_variables(identity.needed, identity.optional, environ, hint)
    request = read_variables((REQUEST_URL, REQUEST_TOKEN), (), environ, PERMISSION_HINT)
    return ids | request


def _job_identity(provider: Provider, environ: Environ) -> JobIdentity | None:
    """The provider's job identity, if one of its ids is set and there are no other
    credentials; else None."""
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
    """The address in the settings, else in the provider's own variable, else of the
    provider or of the cloud's region; empty if there is none."""
    url_in_variable = variable(provider.base_url_variable, environ)
    url = settings.base_url or url_in_variable or provider.base_url
    cloud = provider.cloud
    if not url and cloud is not None:
        region = variables[cloud.needed[0]].get_secret_value()
        url = cloud.base_urls.get(region) or cloud.base_url.format(region=region)
    return url.strip()


def _check_takes_tokens(address: Address) -> None:
    """Raise ConfigError unless a token for the provider's own API may be sent to
    `address`."""
    is_https = address.base_url.startswith("https://")
    is_secure = is_https or address.host in _LOOPBACK_HOSTS
    is_azure = "api-version" in address.query
    if not is_secure or is_azure:
        raise ConfigError(
            "the job's identity can't be used, because the judge's address is not an https address of the provider.",
            where="judge.base_url",
            hint="Tokens are only sent over TLS, and Azure does not accept OpenAI's: set a key for this address.",
        )


def has_job_identity(provider: Provider, environ: Environ) -> bool:
    """Whether the job may request an ID token, and the ids that `provider` needs are
    set."""
    identity = provider.job_identity
    return identity is not None and all(
        variable(name, environ)
        for name in (*identity.needed, REQUEST_URL, REQUEST_TOKEN)
    )


def judge_hosts(settings: JudgeSettings, environ: Environ) -> tuple[str, ...]:
    """The hosts with ports that the judge, its embeddings and signing in to them need,
    such as ``api.openai.com:443``.

    Raises ConfigError if an account can't be made.
    """
    service, model = split_name(settings.name)
    if provider_of(service).api is None:
        return ()
    judge_account = make_account(settings, service, model, environ)
    account_for_embeddings = embeddings_account(settings, judge_account, environ)
    hosts: list[str] = []
    for account in filter(None, (judge_account, account_for_embeddings)):
        url = urlsplit(account.address.base_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        hosts.append(f"{url.hostname}:{port}")
        cloud = account.provider.cloud
        uses_cloud_credentials = cloud is not None and account.key is None
        if account.job_identity is not None or uses_cloud_credentials:
            region = account.variable(cloud.needed[0]) if cloud is not None else None
            sign_in_hosts = account.provider.sign_in_hosts
            hosts += [f"{host.format(region=region)}:443" for host in sign_in_hosts]
    return tuple(dict.fromkeys(hosts))


def needs_key(settings: JudgeSettings, environ: Environ) -> bool:
    """Whether the judge is a hosted one, and there are neither credentials nor a job
    identity.

    A server of the user's own may not need a key.
    """
    provider = provider_of(settings.name)
    is_hosted = bool(provider.key_variable) or provider.cloud is not None
    can_sign_in = (
        settings.api_key is not None
        or provider.has_credentials(environ)
        or has_job_identity(provider, environ)
    )
    return is_hosted and not can_sign_in


def embeddings_model(
    settings: JudgeSettings, provider: Provider
) -> tuple[str, str] | None:
    """The provider and the model of the embeddings for a judge of `provider`; None if
    words are compared instead.

    Raises ConfigError for embeddings that such a judge can't use.
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
                hint="Set judge.embeddings to the name of the model at this address.",
            )
        return COMPATIBLE, model
    if name is None:
        return None
    if provider.embeddings_by is None:
        return provider.name, name
    other_provider = provider_of(provider.embeddings_by)
    service, _, model = name.partition(":")
    if service != other_provider.name or not model:
        default_name = f"{other_provider.name}:{other_provider.embeddings}"
        raise ConfigError(
            f"'{name}' names no embeddings that judge '{provider.name}' can use.",
            where="judge.embeddings",
            hint=f"Write '{default_name}' and set {other_provider.key_variable}, or leave it out.",
        )
    return service, model


def embeddings_account(
    settings: JudgeSettings,
    account: Account,
    environ: Environ,
    tell_secret: TellSecret = ignore_secret,
) -> Account | None:
    """The account for the embeddings of a judge with `account`; None if words are
    compared instead.

    Another service or address is never sent the judge's key, identity or headers.
    """
    provider_and_model = embeddings_model(settings, account.provider)
    if provider_and_model is None:
        return None
    service, model = provider_and_model
    key = settings.embeddings_api_key
    url = settings.embeddings_base_url
    if url:
        parse_address(url.strip(), "judge.embeddings_base_url")
    if url or service != account.service:
        update = {"api_key": key, "base_url": url, "headers": None}
        account = make_account(
            settings.model_copy(update=update),
            service,
            model,
            environ,
            tell_secret,
        )
    account = replace(account, model=model, setting="judge.embeddings")
    if url or key is not None:
        account = replace(
            account, key=key, key_variable=EMBEDDINGS_KEY_VARIABLE, job_identity=None
        )
    # An Azure address names one model: that of the embeddings has an address of its
    # own.
    azure_address = _AZURE_DEPLOYMENT.fullmatch(account.address.base_url)
    if azure_address and not url:
        deployments_url = azure_address[1]
        address = replace(account.address, base_url=deployments_url + model)
        account = replace(account, address=address)
    return account
