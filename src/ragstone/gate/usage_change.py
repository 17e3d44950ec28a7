"""A figure of an answer before and now: latency, tokens or cost, and by how much it
rose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.usage import cost_usd, p95, tokens
from ragstone.formatting import answer_cost, seconds, whole
from ragstone.settings.settings import SystemPrice
from ragstone.stats.intervals import p_proportion_at_most

LATENCY_TOLERANCE_S = 0.2
"""An answer that is later by less is not slower: a shared runner does that by
itself."""

SUSPECTED = 0.05
"""The probability of as many more dearer questions than cheaper ones by chance at which
a rise is warned of."""

MIN_FOR_P95 = 20
"""Of fewer answers, the 95th percentile is the slowest one alone, and a rise of it says
nothing."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the answers of a run."""

    name: str
    title: str
    limit: str
    """The key of [system] that limits its rise."""
    of: Callable[[Values], float]
    """The figure of the values of all answers."""
    shown: Callable[[float], str]
    """How it is written."""
    tolerance: float = 0.0
    """A smaller rise of an answer is none."""
    min_samples: int = 1
    """Of fewer answers, it says nothing."""


def _p95(values: Values) -> float:
    return p95(values.tolist())


def _median(values: Values) -> float:
    return float(np.median(values))


def _mean(values: Values) -> float:
    return float(values.mean())


MEDIAN_LATENCY = Figure(
    "latency_p50_s",
    "Median latency",
    "max_latency_rise",
    _median,
    seconds,
    LATENCY_TOLERANCE_S,
)
P95_LATENCY = Figure(
    "latency_p95_s",
    "p95 of latency",
    "max_latency_rise",
    _p95,
    seconds,
    LATENCY_TOLERANCE_S,
    MIN_FOR_P95,
)
TOKENS = Figure("tokens_mean", "Tokens per answer", "max_token_rise", _mean, whole)
COST = Figure("cost_mean_usd", "Cost per answer", "max_cost_rise", _mean, answer_cost)
FIGURES = {
    figure.name: figure for figure in (MEDIAN_LATENCY, P95_LATENCY, TOKENS, COST)
}


def measured_values(
    run: RunScores, key: str, price: SystemPrice | None = None
) -> Mapping[str, float]:
    """The latency, the tokens or the cost of the first answer to each question, as the
    name `key` says.

    The cost is at `price`, or else at that of the run. Empty if the run doesn't have
    them.
    """
    if "latency" in key:
        return run.system.latencies_s
    if "cost" not in key:
        return {
            sample_id: float(tokens(usage))
            for sample_id, usage in run.system.usage.items()
        }
    run_price = price or run.price
    if run_price is None:
        return {}
    return {
        sample_id: cost_usd(usage, run_price)
        for sample_id, usage in run.system.usage.items()
    }


@dataclass(frozen=True, slots=True)
class UsageChange:
    """One figure of an answer in both runs, in seconds, tokens or US dollars."""

    name: str
    before: float
    """In the baseline."""
    now: float
    """In this run."""
    n: int
    """The number of questions."""

    @property
    def title(self) -> str:
        return FIGURES[self.name].title

    @property
    def share(self) -> float:
        """The rise as a share of `before`: 0.5 is half as much again; infinite if that
        was nothing."""
        if self.before > 0.0:
            return self.now / self.before - 1.0
        if self.now > 0.0:
            return math.inf
        return 0.0

    @property
    def moved(self) -> str:
        """``410 ms → 3.42 s``."""
        shown = FIGURES[self.name].shown
        return f"{shown(self.before)} → {shown(self.now)}"

    @property
    def times(self) -> str:
        """`` (× 8.3)``: how many times as much as before; empty where that was
        nothing."""
        if math.isfinite(self.share):
            return f" ({factor(1.0 + self.share)})"
        return ""


@dataclass(frozen=True, slots=True)
class PairedUsage:
    """What the answers to the same questions took or cost."""

    figure: Figure
    before: Values
    """(n,): in the baseline."""
    now: Values
    """(n,): in this run."""

    @property
    def change(self) -> UsageChange:
        return UsageChange(
            self.figure.name,
            self.figure.of(self.before),
            self.figure.of(self.now),
            len(self.now),
        )

    @property
    def is_telling(self) -> bool:
        """Whether there are enough questions for this figure."""
        return len(self.now) >= self.figure.min_samples

    def is_beyond(self, max_rise: float) -> bool:
        """Whether the figure rose by more than `max_rise`, and by more than a shared
        runner explains."""
        change = self.change
        return self.is_telling and self._count(change.before, change.now, max_rise) == 1

    def p_by_chance(self, max_rise: float) -> float:
        """The probability that so many more questions rose by more than `max_rise` than
        fell by as much, by chance."""
        rose = self._count(self.before, self.now, max_rise)
        fell = self._count(self.now, self.before, max_rise)
        if not rose:
            return 1.0
        return p_proportion_at_most(rose, rose + fell, 0.5)

    def p_within(self, max_rise: float) -> float:
        """The probability that so few questions rose by more than `max_rise`, if half
        of all such questions did."""
        n = len(self.now)
        rose = self._count(self.before, self.now, max_rise)
        return p_proportion_at_most(n - rose, n, 0.5)

    def is_suspected(self, max_rise: float) -> bool:
        """Whether the figure is beyond `max_rise`, and its questions show it; of a few,
        all of them."""
        if not self.is_beyond(max_rise):
            return False
        all_rose = self._count(self.before, self.now, max_rise) == len(self.now)
        return all_rose or self.p_by_chance(max_rise) <= SUSPECTED

    def _count(
        self, before: Values | float, now: Values | float, max_rise: float
    ) -> int:
        """How many of the values rose by more than `max_rise`, and by the tolerance at
        least."""
        rises = np.subtract(now, before)
        is_beyond = rises > np.multiply(max_rise, before)
        is_large = rises >= self.figure.tolerance
        return int(np.count_nonzero(np.logical_and(is_beyond, is_large)))


def factor(value: float) -> str:
    """``× 1.50``, ``× 8.3``, ``× 20``; its space doesn't break."""
    if value < 2.0:
        return f"×\u00a0{value:.2f}"
    if value < 9.95:
        return f"×\u00a0{value:.1f}"
    return f"×\u00a0{value:.0f}"
