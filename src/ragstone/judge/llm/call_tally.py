"""Adds up the calls that an LLM judge and its embeddings will make, for an estimate."""

from __future__ import annotations

from ragstone.judge.llm.account_settings import embeddings_model
from ragstone.judge.llm.prices import (
    CostEstimate,
    Tariff,
    reasoning_tokens,
    tariff_of,
)
from ragstone.judge.llm.prompts import layout_of, prefix_tokens
from ragstone.judge.llm.provider import Usage
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import total_usd
from ragstone.settings.settings import JudgeSettings

_CHARACTERS_PER_TOKEN = 4
_DELIMITER_TOKENS = 60
"""The tokens of the marks between the texts of a request, and of its last line."""


class CallTally:
    """The numbers of calls, and of their tokens by price."""

    def __init__(self, settings: JudgeSettings) -> None:
        provider_name, model = split_name(settings.name)
        self.layout = layout_of(provider_name, model, settings.prices)
        self._reasoning_tokens = reasoning_tokens(settings, provider_name, model)
        self._tariff = tariff_of(provider_name, model, settings.prices)
        self._embeddings_model = embeddings_model(settings, provider_of(provider_name))
        """The names of its provider and of the model; None if there are no
        embeddings."""
        self._embeddings_tariff: Tariff | None = None
        if self._embeddings_model is not None:
            self._embeddings_tariff = tariff_of(
                *self._embeddings_model, settings.prices
            )
        self._calls = 0
        self._input_tokens = 0
        self._cached_input_tokens = 0
        self._output_tokens = 0
        self._cache_write_tokens: dict[str, int] = {}
        """By prompt, the tokens that its first call writes to the provider's cache."""
        self._embeddings_calls = 0
        self._embedded_tokens = 0

    def add(
        self,
        prompt: str,
        characters: float,
        output_tokens: int,
        *,
        calls: int = 1,
        cached_calls: int = 0,
    ) -> None:
        """Count `calls` calls with `prompt`, each of which sends `characters` and
        receives `output_tokens`.

        `cached_calls` of them share the prompt through the provider's cache, if it is
        known to take it: the very first writes it, and the others read it.
        """
        prefix = prefix_tokens(self.layout.prompts[prompt])
        data = round(characters) // _CHARACTERS_PER_TOKEN + _DELIMITER_TOKENS
        self._calls += calls
        self._output_tokens += calls * (output_tokens + self._reasoning_tokens)
        self._input_tokens += calls * data
        uncached_calls = calls
        if cached_calls and prompt in self.layout.cached_prompts:
            uncached_calls -= cached_calls
            if prompt in self._cache_write_tokens:
                self._cached_input_tokens += cached_calls * prefix
            else:
                self._cache_write_tokens[prompt] = prefix
                self._cached_input_tokens += (cached_calls - 1) * prefix
        self._input_tokens += uncached_calls * prefix

    def add_embeddings(self, characters: int) -> None:
        """Count a request for embeddings, if the judge has any."""
        if self._embeddings_model is not None:
            self._embeddings_calls += 1
            self._embedded_tokens += characters // _CHARACTERS_PER_TOKEN

    def estimate(self, assumptions: str, *, times: int = 1) -> CostEstimate:
        """The cost if all calls are made `times` times."""
        chat_usage = Usage(
            input_tokens=self._input_tokens,
            cached_input_tokens=self._cached_input_tokens,
            cache_write_tokens=sum(self._cache_write_tokens.values()),
            output_tokens=self._output_tokens,
        )
        embeddings_usage = Usage(input_tokens=self._embedded_tokens)
        usd = total_usd(
            _cost_usd(self._calls, self._tariff, chat_usage),
            _cost_usd(
                self._embeddings_calls, self._embeddings_tariff, embeddings_usage
            ),
        )
        reasoning = "no reasoning tokens"
        if self._reasoning_tokens:
            reasoning = f"{self._reasoning_tokens} reasoning tokens a call"
        input_tokens = chat_usage.all_input_tokens + embeddings_usage.all_input_tokens
        return CostEstimate(
            calls=times * (self._calls + self._embeddings_calls),
            input_tokens=times * input_tokens,
            output_tokens=times * self._output_tokens,
            usd=None if usd is None else times * usd,
            assumptions=f"{assumptions}; {reasoning}",
        )


def _cost_usd(calls: int, price: Tariff | None, usage: Usage) -> float | None:
    """The cost of `usage`; None if there are calls whose price is not known."""
    if not calls:
        return 0.0
    return None if price is None else price.cost_usd(usage)
