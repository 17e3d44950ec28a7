"""Builds an LLM judge of the settings, with all its parts."""

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
from ragstone.judge.llm.embedding_similarity import EmbeddingSimilarity
from ragstone.judge.llm.form_filler import FormFiller
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.paid_calls import PaidCalls
from ragstone.judge.llm.prices import (
    Budget,
    Tariff,
    listed_price,
    reasoning_tokens,
    tariff_of,
)
from ragstone.judge.llm.prompts import Layout, layout_of
from ragstone.judge.llm.provider import Provider
from ragstone.judge.llm.replies import PARSING_VERSION, CacheKeys
from ragstone.judge.llm.scheduler import REAL_CLOCK, Clock, Scheduler
from ragstone.judge.llm.transport import tls_context
from ragstone.judge.llm.windows import DEFAULT_WINDOW
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import JudgeIdentity, Surroundings
from ragstone.judge.similarity import LexicalSimilarity, Similarity
from ragstone.settings.settings import JudgeSettings

if TYPE_CHECKING:
    from ragstone.judge.llm.openai import OpenAIEmbedder


_RESERVED_PARAMETERS = {
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
"""The parts of a request that Ragstone sets; the user may set any others."""

_MAX_EMBEDDINGS_CONCURRENCY = 16
"""Providers limit embeddings separately, and a run makes few requests for them."""

_UNKNOWN_WINDOW = (
    f"the model's window is not known and assumed to be {DEFAULT_WINDOW:,} tokens; a server with a smaller one may cut "
    "texts off without saying so: set judge.context_window to the model's window"
)


def assemble(
    settings: JudgeSettings, surroundings: Surroundings, clock: Clock = REAL_CLOCK
) -> LlmJudge:
    """The LLM judge of `settings`. Nothing is sent yet.

    Raises ConfigError for settings that are missing or can't be met.
    """
    environ = surroundings.environ
    tell_secret = surroundings.tell_secret
    provider, model = split_name(settings.name)
    account = make_account(
        settings,
        provider,
        model,
        environ,
        tell_secret,
    )
    # Built here, so that certificates that can't be read are an error in the settings.
    tls_context()
    known_tariff = _tariff_of_account(settings, account)
    scheduler = Scheduler(
        concurrency=settings.concurrency,
        timeout_s=settings.timeout_s,
        patience_s=settings.patience_s,
        clock=clock,
    )
    budget = Budget(settings.max_cost_usd)
    similarity: Similarity
    account_for_embeddings = embeddings_account(settings, account, environ, tell_secret)
    if account_for_embeddings is None:
        questions = (sample.question for sample in surroundings.golden_set)
        similarity = LexicalSimilarity(questions)
    else:
        similarity = _embedding_similarity(
            settings,
            account_for_embeddings,
            budget,
            clock,
        )
    layout = layout_of(provider, model, settings.prices)
    identity = _identity(settings, account, layout, similarity.label)
    model_price = listed_price(provider, model)
    known_window = settings.context_window or (
        model_price.window if model_price else None
    )
    cache_path = surroundings.cache
    completer = Completer(
        make_provider=partial(_make_provider, account, _parameters(settings, provider)),
        calls=PaidCalls(scheduler, budget, known_tariff),
        keys=CacheKeys(identity),
        cache=JudgementCache(cache_path) if cache_path else NoCache(),
        layout=layout,
        window=known_window or DEFAULT_WINDOW,
        reasoning_tokens=reasoning_tokens(settings, provider, model),
    )
    filler = FormFiller(completer, notes=() if known_window else (_UNKNOWN_WINDOW,))
    return LlmJudge(
        identity=identity,
        filler=filler,
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
    if effort.parameter_sets:
        parameters = {**effort.parameter_sets[0], **parameters}
    parameter_texts = []
    for name, value in sorted(parameters.items()):
        # The text of nested values doesn't depend on the order of their keys.
        is_nested = isinstance(value, dict | list)
        text = json.dumps(value, sort_keys=True) if is_nested else str(value)
        parameter_texts.append((name, text))
    version = hashlib.sha256((layout.digest() + PARSING_VERSION).encode()).hexdigest()
    return JudgeIdentity(
        provider=account.service,
        model=account.model,
        version=version[:12],
        endpoint=account.address.endpoint,
        parameters=tuple(parameter_texts),
        embeddings=embeddings,
    )


def _parameters(settings: JudgeSettings, provider: str) -> dict[str, JsonValue]:
    """The parameters of every request: the provider's, replaced by the user's. Raises
    ConfigError for one that the user may not set."""
    reserved = _RESERVED_PARAMETERS & settings.parameters.keys()
    if reserved:
        raise ConfigError(
            f"the parameter '{min(reserved)}' can't be set: Ragstone sets it itself.",
            where="judge.parameters",
            hint="Remove it.",
        )
    return {**provider_of(provider).parameters, **settings.parameters}


def _tariff_of_account(settings: JudgeSettings, account: Account) -> Tariff | None:
    """The prices of the account's model; None if they are not known. Raises ConfigError
    if a budget needs them."""
    tariff = tariff_of(account.service, account.model, settings.prices)
    if settings.max_cost_usd is not None and tariff is None:
        raise ConfigError(
            f"can't keep to a budget of {dollars(settings.max_cost_usd)}: the price of "
            f"'{account.service}:{account.model}' is not known.",
            where="judge.max_cost_usd",
            hint=f'Add it to ragstone.toml: [judge.prices."{account.model}"] with input and output in US dollars '
            "for a million tokens.",
        )
    return tariff


def _make_provider(account: Account, parameters: Mapping[str, JsonValue]) -> Provider:
    if account.provider.api == "anthropic":
        from ragstone.judge.llm.anthropic import AnthropicProvider

        return AnthropicProvider(account, parameters=parameters)
    from ragstone.judge.llm.openai import OpenAIProvider

    return OpenAIProvider(account, parameters=parameters)


def _embedding_similarity(
    settings: JudgeSettings,
    account: Account,
    budget: Budget,
    clock: Clock,
) -> EmbeddingSimilarity:
    """The comparison of texts by the embeddings of `account`."""
    label = f"{account.service} {account.model}"
    if settings.embeddings_base_url:
        label += f" at {account.address.endpoint}"

    def make_embedder() -> OpenAIEmbedder:
        from ragstone.judge.llm.openai import OpenAIEmbedder

        return OpenAIEmbedder(account)

    scheduler = Scheduler(
        concurrency=min(_MAX_EMBEDDINGS_CONCURRENCY, settings.concurrency),
        timeout_s=settings.timeout_s,
        patience_s=settings.patience_s,
        clock=clock,
    )
    calls = PaidCalls(scheduler, budget, _tariff_of_account(settings, account))
    return EmbeddingSimilarity(make_embedder=make_embedder, label=label, calls=calls)
