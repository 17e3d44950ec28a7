"""Builds an LLM judge from settings: provider, scheduler, budget, prices, embeddings, cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from ragstone.config import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.formatting import dollars
from ragstone.golden.sample import GoldenSet
from ragstone.judge.cache import JudgementCache
from ragstone.judge.llm.account import Account, Address
from ragstone.judge.llm.account_settings import COMPATIBLE, embeddings_account, make_account, own_embeddings_account
from ragstone.judge.llm.completion import Completer
from ragstone.judge.llm.core import Core
from ragstone.judge.llm.embedding_similarity import EmbeddingSimilarity
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.prices import Budget, Tariff, known_window, tariff
from ragstone.judge.llm.prompts import all_schemas, layout_of
from ragstone.judge.llm.provider import ChatReply, ChatRequest, LiveProvider, Provider
from ragstone.judge.llm.replies import READING
from ragstone.judge.llm.scheduler import Clock, Scheduler
from ragstone.judge.llm.transport import tls_context
from ragstone.judge.llm.windows import DEFAULT_WINDOW
from ragstone.judge.names import local_path, provider_of
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.providers import price_date
from ragstone.judge.similarity import LexicalSimilarity, Similarity

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


class LazyProvider:
    """The provider that `make` creates on the first call."""

    def __init__(self, make: Callable[[], LiveProvider]) -> None:
        self._make = make
        self._made: LiveProvider | None = None

    @property
    def notes(self) -> Sequence[str]:
        return self._made.notes if self._made is not None else ()

    def made(self) -> LiveProvider:
        """The provider itself."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def client(self) -> Any:
        """The client of the provider itself."""
        return self.made().client

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.made().chat(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


# The parts of a request that Ragstone sets; the user may set anything else.
_OURS = frozenset(
    (
        *("model", "messages", "system", "stream", "n", "stop"),
        *("response_format", "tools", "tool_choice", "output_config", "output_format"),
    )
)
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
    within: Path | None = None,
) -> LlmJudge:
    """The judge for `provider` and `model`.

    `tell_secret` is called with each token obtained for this run, before it is used; local embeddings must lie below
    `within`. Raises ConfigError for settings that are missing or can't be honoured. Nothing is sent yet.
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
        within=within,
    )
    chat: Provider = lazy
    if settings.batch:
        chat = _batched(lazy.made(), provider=provider, account=account, cache=cache, clock=clock)
    store = JudgementCache(cache, refresh=settings.refresh) if cache is not None else None
    layout = layout_of(provider, model, settings.prices)
    identity = make_identity(settings, provider, model, account.address, similarity.label)
    window = settings.context_window or known_window(provider, model)
    limits = window or DEFAULT_WINDOW
    core = Core(
        identity=identity,
        completer=Completer(
            provider=chat,
            scheduler=scheduler,
            budget=budget,
            tariff=price,
            layout=layout,
            window=limits,
            batched=settings.batch,
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
    """The judge's identity, without secrets. Its version is a hash of all prompts, schemas and parsing rules."""
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
    """A parameter as one line, independent of the order of nested keys."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)


def _parameters(settings: JudgeSettings, provider: str) -> dict[str, JsonValue]:
    taken = _OURS & settings.parameters.keys()
    if taken:
        raise ConfigError(
            f"'{min(taken)}' is not a parameter to set: Ragstone sets it itself.", where="judge.parameters"
        )
    return {**provider_of(provider).parameters, **settings.parameters}


def _check_budget(settings: JudgeSettings, provider: str, model: str, price: Tariff | None) -> None:
    if settings.max_cost_usd is not None and price is None:
        raise ConfigError(
            f"can't enforce a budget of {dollars(settings.max_cost_usd)}: the price of '{provider}:{model}' is not "
            "known.",
            where="judge.max_cost_usd",
            hint=f'Write it in ragstone.toml: [judge.prices."{model}"] with input and output in US dollars for a '
            f"million tokens (prices that are shipped are of {price_date()}).",
        )


def _provider(settings: JudgeSettings, account: Account) -> LazyProvider:
    parameters = _parameters(settings, account.service)
    api = account.provider.api

    def make() -> LiveProvider:
        if api == "anthropic":
            from ragstone.judge.llm.anthropic import AnthropicProvider

            return AnthropicProvider(account, parameters=parameters)
        from ragstone.judge.llm.openai import OpenAIProvider

        return OpenAIProvider(account, parameters=parameters)

    return LazyProvider(make)


def _batched(live: LiveProvider, *, provider: str, account: Account, cache: Path | None, clock: Clock) -> Provider:
    """`live` behind its provider's batch API; batches.json is next to the cache, in the run directory."""
    from ragstone.judge.cache import BATCHES
    from ragstone.judge.llm.batch import BatchProvider

    state = cache.with_name(BATCHES) if cache is not None else None
    judge = f"{provider} {account.address.endpoint} {account.model}"
    return BatchProvider(live, judge=judge, state=state, clock=clock)


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
    within: Path | None,
) -> tuple[Similarity, list[Closer]]:
    """The similarity for questions, and what has to be closed with it."""
    local = local_path(settings.embeddings)
    if local is not None:
        from ragstone.judge.local.similarity import LocalSimilarity

        device = settings.local.device
        return LocalSimilarity(local, within=within, digests=settings.model_digests, device=device), []
    owner = embeddings_account(settings, account, environ, tell_secret)
    if owner is None:
        return LexicalSimilarity(sample.question for sample in golden_set), []
    shared = account.provider.api != "anthropic" and (owner.address, owner.key) == (account.address, account.key)
    label = f"{owner.service} {owner.model}"
    if settings.embeddings_base_url:
        label += f" at {owner.address.endpoint}"
    similarity = _by_embeddings(settings, owner, label, budget, clock, client=chat.client if shared else None)
    return similarity, [similarity.close]


def endpoint_similarity(
    settings: JudgeSettings, model: str, environ: Mapping[str, str], *, clock: Clock | None = None
) -> tuple[Similarity, list[Closer], str]:
    """For a judge without its own endpoint: `model` of the OpenAI-compatible server at `settings.base_url`, what has to
    be closed, and the endpoint to show. Raises ConfigError as `assemble` does.
    """
    if settings.embeddings_base_url:
        account = own_embeddings_account(settings, model, environ)
    else:
        account = replace(make_account(settings, COMPATIBLE, model, environ), setting="judge.embeddings")
    label = f"{COMPATIBLE} {model}"
    similarity = _by_embeddings(settings, account, label, Budget(settings.max_cost_usd), clock or Clock())
    return similarity, [similarity.close], account.address.endpoint


def _by_embeddings(
    settings: JudgeSettings,
    account: Account,
    label: str,
    budget: Budget,
    clock: Clock,
    client: Callable[[], Any] | None = None,
) -> EmbeddingSimilarity:
    """Embeddings of `account`. `client` gives the chat provider's client, if it is the same service."""
    tls_context(account.ca_bundle)
    price = tariff(account.service, account.model, settings.prices)
    _check_budget(settings, account.service, account.model, price)

    def make() -> OpenAIEmbedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder

        return OpenAIEmbedder(account, client=client() if client is not None else None)

    # Providers limit embeddings separately, and there are so few requests that a small scheduler is enough.
    scheduler = Scheduler(
        concurrency=min(16, settings.concurrency),
        timeout_s=settings.timeout_s,
        max_attempts=settings.max_attempts,
        breaker_failures=settings.breaker_failures,
        clock=clock,
    )
    return EmbeddingSimilarity(embedder=make, label=label, scheduler=scheduler, budget=budget, tariff=price)
