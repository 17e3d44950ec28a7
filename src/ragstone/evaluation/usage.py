"""The tokens that the system under test reports for its answers, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.settings.settings import SystemPrice
from ragstone.system.response import TokenUsage

_MILLION = 1_000_000


class SystemUsage(Struct, frozen=True):
    """The tokens of the first answers. More answers to the same question are not
    independent."""

    answers: int
    """How many questions were answered."""
    reported: int
    """How many of the first answers came with token counts."""
    tokens_mean: float
    tokens_p95: int
    cost_mean_usd: float | None = None
    """None without a price."""
    cost_p95_usd: float | None = None


def tokens(usage: TokenUsage) -> int:
    return usage.input_tokens + usage.output_tokens


def cost_usd(usage: TokenUsage, price: SystemPrice) -> float:
    """The cost of `usage` in US dollars; prices are per million tokens."""
    return (
        usage.input_tokens * price.input + usage.output_tokens * price.output
    ) / _MILLION


def system_usage(run: RunScores) -> SystemUsage | None:
    """The tokens and the cost of the answers of `run`; None if none reports tokens."""
    usages = list(run.system.usage.values())
    if not usages:
        return None
    counts = list(map(tokens, usages))
    summary = SystemUsage(
        answers=max(len(run.system.answers), len(usages)),
        reported=len(usages),
        tokens_mean=fmean(counts),
        tokens_p95=int(p95(counts)),
    )
    if run.price is None:
        return summary
    costs = [cost_usd(usage, run.price) for usage in usages]
    return replace(summary, cost_mean_usd=fmean(costs), cost_p95_usd=p95(costs))


def p95(values: Sequence[float]) -> float:
    """The smallest value that at least 95 % of `values` don't exceed; the same
    definition as in `stats/intervals.py`."""
    # 0.95 is not an exact float: without the tolerance, some ranks are one too high.
    rank = math.ceil(len(values) * 0.95 - 1e-9)
    return sorted(values)[max(0, rank - 1)]
