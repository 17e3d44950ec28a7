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
    """The tokens of the first answer to each question, as with latency, so that they
    are independent."""

    answers: int
    """How many questions were answered."""
    reported: int
    """How many of these answers came with token counts."""
    tokens_mean: float
    tokens_p95: int
    cost_mean_usd: float | None = None
    """None without a price."""
    cost_p95_usd: float | None = None


def tokens(usage: TokenUsage) -> int:
    return usage.input_tokens + usage.output_tokens


def cost_usd(usage: TokenUsage, price: SystemPrice) -> float:
    """US dollars for `usage`."""
    return (
        usage.input_tokens * price.input + usage.output_tokens * price.output
    ) / _MILLION


def system_usage(run: RunScores) -> SystemUsage | None:
    """What the answers of `run` took; None if none reports its tokens."""
    reported = list(run.system.usage.values())
    if not reported:
        return None
    counts = list(map(tokens, reported))
    usage = SystemUsage(
        answers=max(len(run.system.answers), len(reported)),
        reported=len(reported),
        tokens_mean=fmean(counts),
        tokens_p95=int(p95(counts)),
    )
    if run.price is None:
        return usage
    costs = [cost_usd(usage, run.price) for usage in reported]
    return replace(usage, cost_mean_usd=fmean(costs), cost_p95_usd=p95(costs))


def p95(values: Sequence[float]) -> float:
    """The smallest value that at least 95 % of `values` do not exceed, as
    `stats/intervals.py` estimates it."""
    rank = math.ceil(len(values) * 0.95 - 1e-9)
    return sorted(values)[max(0, rank - 1)]
