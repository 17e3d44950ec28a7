"""Putting an LLM judge together from settings: provider, scheduler, budget, prices, embeddings, cache."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue, SecretStr

from ragstone.config import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.budget import Budget
from ragstone.judge.cache import JudgementCache
from ragstone.judge.embeddings import local_path
from ragstone.judge.llm.asking import Asker
from ragstone.judge.llm.core import Core
from ragstone.judge.llm.federation import check_address, federation_of, has_job_identity
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.layout import layout_of
from ragstone.judge.llm.lazy import LazyEmbedder, LazyProvider
from ragstone.judge.llm.platforms import BEARER, CREDENTIALS, PLATFORMS, address_of, has_credentials, platform_of
from ragstone.judge.llm.provider import Embedder, Provider
from ragstone.judge.llm.replies import READING
from ragstone.judge.llm.schemas import all_schemas
from ragstone.judge.llm.similarity import EmbeddingSimilarity, LexicalSimilarity, Similarity
from ragstone.judge.llm.windows import DEFAULT_WINDOW
from ragstone.judge.llm.wire import Account, Address, parse_address, parse_headers, tls_context
from ragstone.judge.prices import Tariff, known_window, price_date, tariff
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.scheduler import Clock, Scheduler

KEY_VARIABLE = "RAGSTONE_JUDGE_API_KEY"
EMBEDDINGS_KEY_VARIABLE = "RAGSTONE_EMBEDDINGS_API_KEY"
_OWN_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_BASE_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
_BASE_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
# Temperature 0 makes judges steadier. Anthropic's newer models refuse the parameter, so there it is the user's to set.
_DEFAULT_PARAMETERS: Mapping[str, Mapping[str, int]] = {
    "openai": {"temperature": 0},
    "openai-compatible": {"temperature": 0},
}
# What a request is made of; anything else is the user's to set.
_OURS = frozenset(
    (
        *("model", "messages", "system", "stream", "n", "stop"),
        *("response_format", "tools", "tool_choice", "output_config", "output_format"),
    )
)
_AZURE_DEPLOYMENT = re.compile(r"(https?://[^?]*/openai/deployments/)[^/]+")
_DEFAULT_EMBEDDINGS = "text-embedding-3-small"
_COMPATIBLE = "openai-compatible"
_BATCH_SAMPLES = 2_000
_BATCH_CALLS = 100_000

_UNKNOWN_WINDOW = (
    f"the model's window is not known and taken to be {DEFAULT_WINDOW:,} tokens; a server with a smaller one may cut "
    "texts off without saying so: set judge.context_window"
)

Closer = Callable[[], Awaitable[None]]


def assemble(
    settings: JudgeSettings,
    *,
    provider: str,
    model: str,
    golden_set: GoldenSet,
    cache: Path | None,
    environ: Mapping[str, str],
    clock: Clock | None = None,
    tell_secret: Callable[[str], None] | None = None,
) -> LlmJudge:
    """The judge for `provider` (``openai``, ``anthropic`` or ``openai-compatible``) and `model`.

    `tell_secret` hears of each token that is got for this run, before it is used. Raises ConfigError for what is
    missing or can't be kept; nothing is sent yet.
    """
    account = make_account(settings, provider, model, environ, tell_secret)
    tls_context(account.ca_bundle)
    price = tariff(provider, model, settings.prices)
    _check_budget(settings, provider, model, price)
    clock = clock or Clock()
    scheduler = Scheduler(
        concurrency=_BATCH_CALLS if settings.batch else settings.concurrency,
        timeout_s=None if settings.batch else settings.timeout_s,
        max_attempts=settings.max_attempts,
        breaker_failures=settings.breaker_failures,
        requests_per_minute=None if settings.batch else settings.requests_per_minute,
        tokens_per_minute=None if settings.batch else settings.tokens_per_minute,
        clock=clock,
    )
    budget = Budget(settings.max_cost_usd)
    lazy = _provider(settings, account)
    similarity, closers = _similarity(
        settings,
        account,
        lazy,
        golden_set=golden_set,
        environ=environ,
        budget=budget,
        clock=clock,
        tell_secret=tell_secret,
    )
    chat: Provider = lazy
    if settings.batch:
        from ragstone.judge.llm.batch import batched

        chat = batched(lazy.made(), provider=provider, account=account, cache=cache, clock=clock)
    store = JudgementCache(cache, refresh=settings.refresh) if cache is not None else None
    layout = layout_of(provider, model, settings.prices)
    identity = make_identity(settings, provider, model, account.address, similarity.label)
    window = settings.context_window or known_window(provider, model)
    limits = window or DEFAULT_WINDOW
    core = Core(
        identity=identity,
        asker=Asker(
            chat, scheduler=scheduler, budget=budget, tariff=price, layout=layout, window=limits, batched=settings.batch
        ),
        layout=layout,
        cache=store,
        window=limits,
        notes=() if window else (_UNKNOWN_WINDOW,),
    )
    concurrency = _BATCH_SAMPLES if settings.batch else settings.concurrency
    return LlmJudge(identity=identity, core=core, similarity=similarity, concurrency=concurrency, closers=closers)


def make_identity(
    settings: JudgeSettings, provider: str, model: str, address: Address, embeddings: str
) -> JudgeIdentity:
    """Who judges, without anything secret. Its version is a hash over all prompts, schemas and rules of reading."""
    asked = layout_of(provider, model, settings.prices).digest() + all_schemas() + READING
    digest = hashlib.sha256(asked.encode()).hexdigest()
    return JudgeIdentity(
        provider=provider,
        model=model,
        version=digest[:12],
        endpoint=address.endpoint,
        parameters=tuple(sorted((name, _plain(value)) for name, value in _parameters(settings, provider).items())),
        embeddings=embeddings,
    )


def _plain(value: JsonValue) -> str:
    """A parameter as one line, the same whatever the order of what nests in it."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)


def make_account(
    settings: JudgeSettings,
    provider: str,
    model: str,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None = None,
) -> Account:
    """Address, and key or identity. A key in OPENAI_API_KEY or ANTHROPIC_API_KEY goes to that provider only."""
    own = _OWN_VARIABLES.get(provider)
    if provider in PLATFORMS:
        return _platform_account(settings, provider, model, environ, tell_secret)
    url = settings.base_url or environ.get(_BASE_VARIABLES.get(provider, ""), "") or _BASE_URLS.get(provider)
    if not url:
        raise ConfigError(
            f"judge '{provider}:{model}' needs an address.",
            where="judge.base_url",
            mend="Set judge.base_url, for example http://localhost:11434/v1.",
        )
    key = settings.api_key
    if key is None or not key.get_secret_value().strip():
        found = environ.get(own, "").strip() if own else ""
        key = SecretStr(found) if found else None
    else:
        key = SecretStr(key.get_secret_value().strip())
    federation = None
    if settings.auth == "oidc" or (settings.auth is None and key is None and has_job_identity(provider, environ)):
        if settings.api_key is not None:
            raise ConfigError(
                "judge.auth is 'oidc', and a key is set.",
                where="judge.auth",
                mend=f"Leave {KEY_VARIABLE} out, or 'oidc'.",
            )
        key, federation = None, federation_of(provider, environ, tell_secret)
    if key is None and own and federation is None:
        raise ConfigError(
            f"judge '{provider}:{model}' needs an API key, and none is set.",
            where="judge",
            mend=f"Set the environment variable {KEY_VARIABLE} or {own}, or use 'judge: offline', which needs none.",
        )
    if key is not None and not key.get_secret_value().isprintable():
        raise ConfigError("the API key holds characters that no key has (a line break?).", where=KEY_VARIABLE)
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
    """The account of a cloud, as its own variables name it; a key of the settings is an access token of that cloud."""
    if settings.batch:
        raise ConfigError(f"judge '{provider}:{model}' has no batches.", where="judge.batch", mend="Leave it out.")
    given = settings.api_key.get_secret_value().strip() if settings.api_key is not None else ""
    token = given or environ.get(BEARER.get(provider, ""), "").strip()
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


def _parameters(settings: JudgeSettings, provider: str) -> dict[str, JsonValue]:
    taken = _OURS & settings.parameters.keys()
    if taken:
        raise ConfigError(
            f"'{min(taken)}' is not a parameter to set: Ragstone sets it itself.", where="judge.parameters"
        )
    return {**_DEFAULT_PARAMETERS.get(provider, {}), **settings.parameters}


def _check_budget(settings: JudgeSettings, provider: str, model: str, price: Tariff | None) -> None:
    if settings.max_cost_usd is not None and price is None:
        raise ConfigError(
            f"a budget of ${settings.max_cost_usd:.2f} can't be kept: the price of '{provider}:{model}' is not known.",
            where="judge.max_cost_usd",
            mend=f'Write it in ragstone.toml: [judge.prices."{model}"] with input and output in US dollars for a '
            f"million tokens (prices that are shipped are of {price_date()}).",
        )


def _provider(settings: JudgeSettings, account: Account) -> LazyProvider:
    parameters = _parameters(settings, account.service)

    def make() -> Provider:
        if account.service == "anthropic" or account.platform is not None:
            from ragstone.judge.llm.anthropic import AnthropicProvider

            return AnthropicProvider(account, parameters=parameters)
        from ragstone.judge.llm.openai import OpenAIProvider

        return OpenAIProvider(account, parameters=parameters, compatible=account.service == _COMPATIBLE)

    return LazyProvider(make)


def _similarity(
    settings: JudgeSettings,
    account: Account,
    chat: LazyProvider,
    *,
    golden_set: GoldenSet,
    environ: Mapping[str, str],
    budget: Budget,
    clock: Clock,
    tell_secret: Callable[[str], None] | None = None,
) -> tuple[Similarity, list[Closer]]:
    """What compares questions, and what has to be closed with it."""
    local = local_path(settings.embeddings)
    if local is not None:
        from ragstone.judge.local.similarity import LocalSimilarity

        return LocalSimilarity(local), []
    owner = _embeddings_account(settings, account, environ, tell_secret)
    if owner is None:
        return LexicalSimilarity(sample.question for sample in golden_set), []

    def make() -> Embedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder, OpenAIProvider

        live = chat.made()
        same = isinstance(live, OpenAIProvider) and (owner.address, owner.key) == (account.address, account.key)
        client = live.client if same and isinstance(live, OpenAIProvider) else None
        return OpenAIEmbedder(owner, compatible=owner.service == _COMPATIBLE, client=client)

    label = f"{owner.service} {owner.model}"
    if settings.embeddings_base_url:
        label += f" at {owner.address.endpoint}"
    return _by_embeddings(settings, LazyEmbedder(make, label=label), owner, budget=budget, clock=clock)


def _embeddings_account(
    settings: JudgeSettings,
    account: Account,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None,
) -> Account | None:
    """Who is asked for embeddings; None if words are compared instead.

    At an address of their own they get a key of their own or none, never the judge's.
    """
    model = settings.embeddings or (_DEFAULT_EMBEDDINGS if account.service == "openai" else None)
    if settings.embeddings_base_url:
        return _own_embeddings(settings, environ)
    if model is None:
        return None
    key = settings.embeddings_api_key
    if account.service == "anthropic" or account.platform is not None:
        model = _embeddings_beside(model)
        # Beside: another service, with a key or an identity of its own.
        update = {"api_key": key, "base_url": None, "headers": None, "auth": None}
        account = make_account(settings.model_copy(update=update), "openai", model, environ, tell_secret)
    own = replace(account, model=model, setting="judge.embeddings")
    if key is not None:
        own = replace(own, key=key, key_variable=EMBEDDINGS_KEY_VARIABLE, federation=None)
    deployment = _AZURE_DEPLOYMENT.fullmatch(own.address.base_url)
    if deployment:
        own = replace(own, address=replace(own.address, base_url=deployment.group(1) + model))
    return own


def _own_embeddings(settings: JudgeSettings, environ: Mapping[str, str]) -> Account:
    model = (settings.embeddings or "").removeprefix(f"{_COMPATIBLE}:").removeprefix("openai:").strip()
    if not model:
        raise ConfigError(
            "there is an address for embeddings, and no model for them.",
            where="judge.embeddings_base_url",
            mend="Set judge.embeddings to the name of the model.",
        )
    url = str(settings.embeddings_base_url).strip()
    parse_address(url, "judge.embeddings_base_url")
    update = {"api_key": settings.embeddings_api_key, "base_url": url, "headers": None, "auth": "key"}
    account = make_account(settings.model_copy(update=update), _COMPATIBLE, model, environ)
    return replace(account, key_variable=EMBEDDINGS_KEY_VARIABLE, setting="judge.embeddings")


def endpoint_similarity(
    settings: JudgeSettings, model: str, environ: Mapping[str, str], *, clock: Clock | None = None
) -> tuple[Similarity, list[Closer], str]:
    """For a judge without an endpoint of its own: `model` of the OpenAI-compatible server at `settings.base_url`, what
    has to be closed, and the endpoint to show. Raises ConfigError as `assemble` does.
    """
    if settings.embeddings_base_url:
        account = _own_embeddings(settings, environ)
    else:
        account = replace(make_account(settings, _COMPATIBLE, model, environ), setting="judge.embeddings")
    tls_context(account.ca_bundle)
    _check_budget(settings, _COMPATIBLE, model, tariff(_COMPATIBLE, model, settings.prices))

    def make() -> Embedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder

        return OpenAIEmbedder(account, compatible=True)

    embedder = LazyEmbedder(make, label=f"{_COMPATIBLE} {model}")
    similarity, closers = _by_embeddings(
        settings, embedder, account, budget=Budget(settings.max_cost_usd), clock=clock or Clock()
    )
    return similarity, closers, account.address.endpoint


def _by_embeddings(
    settings: JudgeSettings, embedder: Embedder, account: Account, *, budget: Budget, clock: Clock
) -> tuple[Similarity, list[Closer]]:
    similarity = EmbeddingSimilarity(
        embedder,
        scheduler=_embedding_scheduler(settings, clock),
        budget=budget,
        tariff=tariff(account.service, account.model, settings.prices),
    )
    return similarity, [similarity.close, embedder.close]


def _embeddings_beside(name: str) -> str:
    """The model in ``openai:MODEL``: OpenAI's embeddings beside a judge that has none."""
    service, _, model = name.partition(":")
    if service != "openai" or not model:
        raise ConfigError(
            f"'{name}' names no embeddings that an Anthropic judge can use.",
            where="judge.embeddings",
            mend=f"Write 'openai:{_DEFAULT_EMBEDDINGS}' and set OPENAI_API_KEY, or 'local:FOLDER', or leave it out.",
        )
    return model


def _embedding_scheduler(settings: JudgeSettings, clock: Clock) -> Scheduler:
    """Embeddings have limits of their own at all providers, and are so few that a small scheduler does."""
    return Scheduler(
        concurrency=min(16, settings.concurrency),
        timeout_s=settings.timeout_s,
        max_attempts=settings.max_attempts,
        breaker_failures=settings.breaker_failures,
        clock=clock,
    )
