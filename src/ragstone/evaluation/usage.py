"""The tokens that the system under test reports for its answers, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ragstone.evaluation.manifest import SystemUsage
from ragstone.settings.settings import SystemPrice
from ragstone.system.response import Response, TokenUsage

_MILLION = 1_000_000


def tokens(usage: TokenUsage) -> int:
    return usage.input_tokens + usage.output_tokens


def cost_usd(usage: TokenUsage, price: SystemPrice) -> float:
    """US dollars for `usage`."""
    return (
        usage.input_tokens * price.input + usage.output_tokens * price.output
    ) / _MILLION


class UsageCount:
    """Adds up the token counts of a run's answers, sample by sample.

    Totals are over all answers. Means and percentiles are over the first answer to each
    question, as with latency, so that they are independent.
    """

    def __init__(self, price: SystemPrice | None) -> None:
        self._price = price
        self._answers = 0
        self._all: list[TokenUsage] = []
        self._first: list[TokenUsage] = []

    def add(self, responses: Sequence[Response]) -> None:
        """Count the answers to one question; failures gave none."""
        reported = [
            response.usage if response.failure is None else None
            for response in responses
        ]
        self._answers += sum(response.failure is None for response in responses)
        self._all += [usage for usage in reported if usage is not None]
        if reported[0] is not None:
            self._first.append(reported[0])

    def summary(self) -> SystemUsage | None:
        """What was reported; None if no first answer reports its tokens."""
        if not self._first:
            return None
        price, first = self._price, self._first
        costs = None if price is None else [cost_usd(usage, price) for usage in first]
        return SystemUsage(
            answers=self._answers,
            reported=len(self._all),
            input_tokens=sum(usage.input_tokens for usage in self._all),
            output_tokens=sum(usage.output_tokens for usage in self._all),
            input_tokens_mean=_mean(usage.input_tokens for usage in first),
            output_tokens_mean=_mean(usage.output_tokens for usage in first),
            tokens_mean=_mean(tokens(usage) for usage in first),
            tokens_p95=int(p95([tokens(usage) for usage in first])),
            price=price,
            cost_usd=None
            if price is None
            else math.fsum(cost_usd(usage, price) for usage in self._all),
            cost_mean_usd=None if costs is None else _mean(costs),
            cost_p95_usd=None if costs is None else p95(costs),
        )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)


def p95(values: Sequence[float]) -> float:
    """The smallest value that at least 95 % of `values` do not exceed, as
    `stats/intervals.py` estimates it."""
    return sorted(values)[max(0, math.ceil(len(values) * 0.95 - 1e-9) - 1)]
