"""Adds up calls of an LLM judge, and of its embeddings, that are not made yet."""

from __future__ import annotations

from ragstone.judge.llm.account_settings import embeddings_named
from ragstone.judge.llm.prices import (
    CostEstimate,
    Tariff,
    reasoning_tokens,
    tariff,
)
from ragstone.judge.llm.prompts import layout_of, prefix_tokens
from ragstone.judge.llm.provider import Usage
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import total_usd
from ragstone.settings.settings import JudgeSettings

_PER_TOKEN = 4
_MARKS_TOKENS = 60


class CallTally:
    """Calls and their tokens, where the provider is known to cache the part that all
    requests share with those that find it there."""

    def __init__(self, settings: JudgeSettings) -> None:
        provider, model = split_name(settings.name)
        self.layout = layout_of(provider, model, settings.prices)
        self._reasoning = reasoning_tokens(settings, provider, model)
        self._price = tariff(provider, model, settings.prices)
        self._embeds = embeddings_named(settings, provider_of(provider))
        self._embedding_price: Tariff | None = None
        if self._embeds is not None:
            self._embedding_price = tariff(*self._embeds, settings.prices)
        self._calls = self._read = self._cached = self._written = 0
        self._stored: dict[str, int] = {}
        """Tokens that the first call of a prompt puts into the cache."""
        self._embedding_calls = self._embedded = 0

    def add(
        self,
        prompt: str,
        characters: float,
        received: int,
        *,
        calls: int = 1,
        cached: int = 0,
    ) -> None:
        """Count `calls` with `prompt`, each with so many characters sent and tokens
        received; `cached` of them may find its prefix in the cache."""
        prefix = prefix_tokens(self.layout.prompts[prompt])
        data = round(characters) // _PER_TOKEN + _MARKS_TOKENS
        self._calls += calls
        self._written += calls * (received + self._reasoning)
        self._read += calls * data
        whole = calls
        if cached and prompt in self.layout.cached:
            whole -= cached
            if prompt in self._stored:
                self._cached += cached * prefix
            else:
                self._stored[prompt] = prefix
                self._cached += (cached - 1) * prefix
        self._read += whole * prefix

    def embed(self, characters: int) -> None:
        """Count a request for embeddings, if the judge has any."""
        if self._embeds is not None:
            self._embedding_calls += 1
            self._embedded += characters // _PER_TOKEN

    def estimate(self, assumptions: str, *, repeats: int = 1) -> CostEstimate:
        """All of it, `repeats` times."""
        stored = sum(self._stored.values())
        chat = Usage(self._read, self._cached, stored, self._written)
        embeddings = Usage(self._embedded)
        usd = total_usd(
            _cost_usd(self._calls, self._price, chat),
            _cost_usd(self._embedding_calls, self._embedding_price, embeddings),
        )
        reasoning = "no reasoning tokens"
        if self._reasoning:
            reasoning = f"{self._reasoning} reasoning tokens a call"
        read = chat.all_input_tokens + embeddings.all_input_tokens
        return CostEstimate(
            calls=repeats * (self._calls + self._embedding_calls),
            input_tokens=repeats * read,
            output_tokens=repeats * self._written,
            usd=None if usd is None else repeats * usd,
            assumptions=f"{assumptions}; {reasoning}",
        )


def _cost_usd(calls: int, price: Tariff | None, usage: Usage) -> float | None:
    if not calls:
        return 0.0
    return None if price is None else price.cost_usd(usage)
