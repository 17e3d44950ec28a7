"""Builds an LLM judge from settings: provider, scheduler, budget, prices, embeddings,
cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ragstone.errors import ConfigError
from ragstone.formatting import dollars
from ragstone.judge.cache import JudgementCache, NoCache
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.account_settings import embeddings_account, make_account
from ragstone.judge.llm.completion import Completer
from ragstone.judge.llm.core import Core
from ragstone.judge.llm.embedding_similarity import EmbeddingSimilarity
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.paid_calls import PaidCalls
from ragstone.judge.llm.prices import (
    Budget,
    Tariff,
    listed_price,
    reasoning_tokens,
    tariff,
)
from ragstone.judge.llm.prompts import Layout, layout_of
from ragstone.judge.llm.provider import Provider
from ragstone.judge.llm.replies import READING, CacheKeys
from ragstone.judge.llm.scheduler import REAL_CLOCK, Clock, Scheduler
from ragstone.judge.llm.transport import tls_context
from ragstone.judge.llm.windows import DEFAULT_WINDOW
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import JudgeIdentity, Surroundings
from ragstone.judge.similarity import LexicalSimilarity, Similarity
from ragstone.settings.settings import JudgeSettings

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


# The parts of a request that Ragstone sets; the user may set anything else.
_OURS = {
    "model",
    "messages",
    "system",
    "stream",
    "n",
    "stop",
    "logprobs",
    "top_logprobs",
    "response_format",
    "tools",
    "tool_choice",
    "output_config",
    "output_format",
}

_UNKNOWN_WINDOW = (
    f"the model's window is not known and taken to be {DEFAULT_WINDOW:,} tokens; a server with a smaller one may cut "
    "texts off without saying so: set judge.context_window"
)


def assemble(
    settings: JudgeSettings, surroundings: Surroundings, clock: Clock = REAL_CLOCK
) -> LlmJudge:
    """The LLM judge of `settings`; see `factory.build_judge`. Nothing is sent yet.

    Raises ConfigError for settings that are missing or can't be honoured.
    """
    environ, tell_secret = surroundings.environ, surroundings.tell_secret
    provider, model = split_name(settings.name)
    account = make_account(
        settings,
        provider,
        model,
        environ,
        tell_secret,
    )
    tls_context()
    price = _price(settings, account)
    scheduler = Scheduler(
        concurrency=settings.concurrency,
        timeout_s=settings.timeout_s,
        patience_s=settings.patience_s,
        clock=clock,
    )
    budget = Budget(settings.max_cost_usd)
    similarity: Similarity
    owner = embeddings_account(settings, account, environ, tell_secret)
    if owner is None:
        questions = (sample.question for sample in surroundings.golden_set)
        similarity = LexicalSimilarity(questions)
    else:
        label = f"{owner.service} {owner.model}"
        if settings.embeddings_base_url:
            label += f" at {owner.address.endpoint}"
        similarity = _by_embeddings(
            settings,
            owner,
            label,
            budget,
            clock,
        )
    layout = layout_of(provider, model, settings.prices)
    identity = _identity(settings, account, layout, similarity.label)
    listed = listed_price(provider, model)
    window = settings.context_window or (listed.window if listed else None)
    path = surroundings.cache
    completer = Completer(
        make_provider=partial(_provider, account, _parameters(settings, provider)),
        calls=PaidCalls(scheduler, budget, price),
        keys=CacheKeys(identity),
        cache=JudgementCache(path) if path else NoCache(),
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
    )


def _identity(
    settings: JudgeSettings, account: Account, layout: Layout, embeddings: str
) -> JudgeIdentity:
    """The judge's identity, without secrets. Its version is a hash of all prompts,
    schemas and parsing rules."""
    parameters = _parameters(settings, account.service)
    effort = account.provider.effort(account.model, parameters)
    if effort.ways:
        parameters = {**effort.ways[0], **parameters}
    shown = []
    for name, value in sorted(parameters.items()):
        # Nested ones in one line, independent of the order of keys.
        is_nested = isinstance(value, dict | list)
        text = json.dumps(value, sort_keys=True) if is_nested else str(value)
        shown.append((name, text))
    return JudgeIdentity(
        provider=account.service,
        model=account.model,
        version=hashlib.sha256((layout.digest() + READING).encode()).hexdigest()[:12],
        endpoint=account.address.endpoint,
        parameters=tuple(shown),
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


def _price(settings: JudgeSettings, account: Account) -> Tariff | None:
    """The price of the account's model. Raises ConfigError if a budget needs it and it
    is not known."""
    price = tariff(account.service, account.model, settings.prices)
    if settings.max_cost_usd is not None and price is None:
        raise ConfigError(
            f"can't enforce a budget of {dollars(settings.max_cost_usd)}: the price of "
            f"'{account.service}:{account.model}' is not known.",
            where="judge.max_cost_usd",
            hint=f'Write it in ragstone.toml: [judge.prices."{account.model}"] with input and output in US dollars '
            "for a million tokens.",
        )
    return price


def _provider(account: Account, parameters: Mapping[str, JsonValue]) -> Provider:
    if account.provider.api == "anthropic":
        from ragstone.judge.llm.anthropic import AnthropicProvider

        return AnthropicProvider(account, parameters=parameters)
    from ragstone.judge.llm.openai import OpenAIProvider

    return OpenAIProvider(account, parameters=parameters)


def _by_embeddings(
    settings: JudgeSettings,
    account: Account,
    label: str,
    budget: Budget,
    clock: Clock,
) -> EmbeddingSimilarity:
    """Embeddings of `account`."""
    price = _price(settings, account)

    def make() -> OpenAIEmbedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder

        return OpenAIEmbedder(account)

    # Providers limit embeddings separately, and there are few requests, so a small
    # scheduler is enough.
    scheduler = Scheduler(
        concurrency=min(16, settings.concurrency),
        timeout_s=settings.timeout_s,
        patience_s=settings.patience_s,
        clock=clock,
    )
    calls = PaidCalls(scheduler, budget, price)
    return EmbeddingSimilarity(embedder=make, label=label, calls=calls)
