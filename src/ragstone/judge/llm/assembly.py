"""Builds an LLM judge from settings: provider, scheduler, budget, prices, embeddings,
cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ragstone.errors import ConfigError
from ragstone.formatting import dollars
from ragstone.golden.sample import GoldenSet
from ragstone.judge.cache import JudgementCache
from ragstone.judge.llm.account import Account, Address
from ragstone.judge.llm.account_settings import (
    COMPATIBLE,
    embeddings_account,
    make_account,
    own_embeddings_account,
)
from ragstone.judge.llm.cache_keys import CacheKeys
from ragstone.judge.llm.completion import Completer
from ragstone.judge.llm.core import Core
from ragstone.judge.llm.embedding_similarity import EmbeddingSimilarity
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.prices import (
    Budget,
    Tariff,
    listed_price,
    reasoning_tokens,
    tariff,
)
from ragstone.judge.llm.prompts import layout_of
from ragstone.judge.llm.provider import ChatReply, ChatRequest, Provider
from ragstone.judge.llm.replies import READING
from ragstone.judge.llm.scheduler import Clock, Scheduler
from ragstone.judge.llm.transport import tls_context
from ragstone.judge.llm.windows import DEFAULT_WINDOW
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import JudgeIdentity
from ragstone.judge.providers import price_date
from ragstone.judge.similarity import LexicalSimilarity, Similarity
from ragstone.settings.settings import JudgeSettings

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


class LazyProvider:
    """The provider that `make` creates on the first call."""

    def __init__(self, make: Callable[[], Provider]) -> None:
        self._make = make
        self._made: Provider | None = None

    @property
    def notes(self) -> Sequence[str]:
        return self._made.notes if self._made is not None else ()

    async def chat(self, request: ChatRequest) -> ChatReply:
        if self._made is None:
            self._made = self._make()
        return await self._made.chat(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


# The parts of a request that Ragstone sets; the user may set anything else.
_OURS = frozenset(
    (
        *("model", "messages", "system", "stream", "n", "stop"),
        *("logprobs", "top_logprobs"),
        *("response_format", "tools", "tool_choice", "output_config", "output_format"),
    )
)

_UNKNOWN_WINDOW = (
    f"the model's window is not known and taken to be {DEFAULT_WINDOW:,} tokens; a server with a smaller one may cut "
    "texts off without saying so: set judge.context_window"
)

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What an LLM judge is built from; see `factory.build_judge`. Nothing is sent yet.

    `tell_secret` is called with each token obtained for this run, before it is used.
    Methods raise ConfigError for settings that are missing or can't be honoured.
    """

    settings: JudgeSettings
    golden_set: GoldenSet
    cache: Path | None
    environ: Mapping[str, str]
    tell_secret: Callable[[str], None] | None = None
    clock: Clock = field(default_factory=Clock)

    def judge(self) -> LlmJudge:
        settings, (provider, model) = self.settings, split_name(self.settings.name)
        account = make_account(
            settings, provider, model, self.environ, self.tell_secret
        )
        tls_context(account.ca_bundle)
        price = tariff(provider, model, settings.prices)
        _check_budget(settings, provider, model, price)
        scheduler = Scheduler(
            concurrency=settings.concurrency,
            timeout_s=settings.timeout_s,
            patience_s=settings.patience_s,
            clock=self.clock,
        )
        budget = Budget(settings.max_cost_usd)
        lazy = _provider(settings, account)
        similarity, closers = self._similarity(account, budget)
        layout = layout_of(provider, model, settings.prices)
        identity = make_identity(
            settings, provider, model, account.address, similarity.label
        )
        listed = listed_price(provider, model)
        window = settings.context_window or (listed.window if listed else None)
        completer = Completer(
            provider=lazy,
            scheduler=scheduler,
            budget=budget,
            keys=CacheKeys(identity),
            cache=None if self.cache is None else JudgementCache(self.cache),
            tariff=price,
            layout=layout,
            window=window or DEFAULT_WINDOW,
            reasoning_tokens=reasoning_tokens(settings, provider, model),
        )
        core = Core(completer, notes=() if window else (_UNKNOWN_WINDOW,))
        return LlmJudge(
            identity=identity,
            core=core,
            similarity=similarity,
            concurrency=settings.concurrency,
            closers=closers,
        )

    def _similarity(
        self, account: Account, budget: Budget
    ) -> tuple[Similarity, list[Closer]]:
        settings = self.settings
        owner = embeddings_account(settings, account, self.environ, self.tell_secret)
        if owner is None:
            return LexicalSimilarity(sample.question for sample in self.golden_set), []
        label = f"{owner.service} {owner.model}"
        if settings.embeddings_base_url:
            label += f" at {owner.address.endpoint}"
        similarity = _by_embeddings(settings, owner, label, budget, self.clock)
        return similarity, [similarity.close]


def make_identity(
    settings: JudgeSettings,
    provider: str,
    model: str,
    address: Address,
    embeddings: str,
) -> JudgeIdentity:
    """The judge's identity, without secrets. Its version is a hash of all prompts,
    schemas and parsing rules."""
    procedure = layout_of(provider, model, settings.prices).digest() + READING
    parameters = _parameters(settings, provider)
    effort = provider_of(provider).effort(model, parameters)
    if effort is not None:
        parameters = {**effort.ways[0], **parameters}
    digest = hashlib.sha256(procedure.encode()).hexdigest()
    return JudgeIdentity(
        provider=provider,
        model=model,
        version=digest[:12],
        endpoint=address.endpoint,
        # Nested ones in one line, independent of the order of keys.
        parameters=tuple(
            (
                name,
                json.dumps(value, sort_keys=True)
                if isinstance(value, dict | list)
                else str(value),
            )
            for name, value in sorted(parameters.items())
        ),
        embeddings=embeddings,
    )


def _parameters(settings: JudgeSettings, provider: str) -> dict[str, JsonValue]:
    reserved = _OURS & settings.parameters.keys()
    if reserved:
        raise ConfigError(
            f"'{min(reserved)}' is not a parameter to set: Ragstone sets it itself.",
            where="judge.parameters",
        )
    return {**provider_of(provider).parameters, **settings.parameters}


def _check_budget(
    settings: JudgeSettings, provider: str, model: str, price: Tariff | None
) -> None:
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

    def make() -> Provider:
        if api == "anthropic":
            from ragstone.judge.llm.anthropic import AnthropicProvider

            return AnthropicProvider(account, parameters=parameters)
        from ragstone.judge.llm.openai import OpenAIProvider

        return OpenAIProvider(account, parameters=parameters)

    return LazyProvider(make)


def endpoint_similarity(
    settings: JudgeSettings, model: str, environ: Mapping[str, str]
) -> tuple[Similarity, list[Closer], str]:
    """For a judge without its own endpoint: `model` of the OpenAI-compatible server at
    `settings.base_url`, what has to be closed, and the endpoint to show. Raises
    ConfigError.
    """
    if settings.embeddings_base_url:
        account = own_embeddings_account(settings, model, environ)
    else:
        account = replace(
            make_account(settings, COMPATIBLE, model, environ),
            setting="judge.embeddings",
        )
    label = f"{COMPATIBLE} {model}"
    similarity = _by_embeddings(
        settings, account, label, Budget(settings.max_cost_usd), Clock()
    )
    return similarity, [similarity.close], account.address.endpoint


def _by_embeddings(
    settings: JudgeSettings,
    account: Account,
    label: str,
    budget: Budget,
    clock: Clock,
) -> EmbeddingSimilarity:
    """Embeddings of `account`."""
    tls_context(account.ca_bundle)
    price = tariff(account.service, account.model, settings.prices)
    _check_budget(settings, account.service, account.model, price)

    def make() -> OpenAIEmbedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder

        return OpenAIEmbedder(account)

    # Providers limit embeddings separately, and there are so few requests that a small
    # scheduler is enough.
    scheduler = Scheduler(
        concurrency=min(16, settings.concurrency),
        timeout_s=settings.timeout_s,
        patience_s=settings.patience_s,
        clock=clock,
    )
    return EmbeddingSimilarity(
        embedder=make, label=label, scheduler=scheduler, budget=budget, tariff=price
    )
