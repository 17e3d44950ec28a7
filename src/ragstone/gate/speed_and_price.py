"""Latency, tokens and cost of an answer in the baseline and now, on the questions that
both runs measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.usage import cost_usd, p95, tokens
from ragstone.formatting import answer_cost, listed, rounded, seconds
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import USAGE, Finding, Level
from ragstone.settings.settings import SystemPrice
from ragstone.stats.intervals import p_proportion_at_most

WARNED_RISE = 0.5 - 1e-9
"""A rise of more is a warning if the policy sets no limit. It is just below one half, so
that half as much again counts."""

LATENCY_TOLERANCE_S = 0.2
"""An answer that takes longer by less is not slower: times vary so much on a shared
runner."""

MIN_LATENCY_S = 0.01
"""If no answer takes longer, the latency says nothing of the system."""

START_UP_ANSWERS = 4
"""The number of first answers of a run that its latencies leave out: they wait for
imports, models and connections.

As many as the default concurrency, since each worker has a first answer."""
MAX_START_UP_SHARE = 0.2
"""The largest share of the answers that is left out."""

MAX_P_SUSPECTED = 0.05
"""A rise is a warning if chance alone makes so many more questions dearer than cheaper
with at most this probability."""

MIN_ANSWERS_FOR_P95 = 20
"""Of fewer answers, the 95th percentile is the slowest one alone, and its rise says
nothing."""

Values = NDArray[np.float64]


class Figure(Struct, frozen=True):
    """A figure for the latency, tokens or cost of the answers of a run."""

    name: str
    title: str
    limit_key: str
    """The key of [system] that limits its rise."""
    compute: Callable[[Values], float]
    """Computes the figure from the values of all answers."""
    format: Callable[[float], str]
    """Writes the figure, with its unit."""
    tolerance: float = 0.0
    """A smaller rise of an answer doesn't count."""
    min_answers: int = 1
    """With fewer answers, the figure says nothing."""


def _mean(values: Values) -> float:
    return float(values.mean())


P95_LATENCY = Figure(
    "latency_p95_s",
    "p95 of latency",
    "max_latency_rise",
    lambda values: p95(values.tolist()),
    seconds,
    LATENCY_TOLERANCE_S,
    MIN_ANSWERS_FOR_P95,
)
FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "latency_p50_s",
            "Median latency",
            "max_latency_rise",
            lambda values: float(np.median(values)),
            seconds,
            LATENCY_TOLERANCE_S,
        ),
        P95_LATENCY,
        Figure("tokens_mean", "Tokens per answer", "max_token_rise", _mean, rounded),
        Figure("cost_mean_usd", "Cost per answer", "max_cost_rise", _mean, answer_cost),
    )
}


def measured_values(
    run: RunScores, key: str, price: SystemPrice | None
) -> Mapping[str, float]:
    """The latency, tokens or cost of the first answer to each question, by sample id;
    empty if the run doesn't have them. `key` is the name of a figure, or a key of
    [system]."""
    if "latency" in key:
        return run.system.latencies_s
    values = {}
    for sample_id, used in run.system.usage.items():
        if "cost" not in key:
            values[sample_id] = float(tokens(used))
        elif price is not None:
            values[sample_id] = cost_usd(used, price)
    return values


class UsageChange(Struct, frozen=True):
    """One figure of an answer in both runs, in seconds, tokens or US dollars."""

    name: str
    before: float
    """The figure in the baseline."""
    now: float
    """The figure in this run."""
    n: int
    """The number of questions."""

    @property
    def title(self) -> str:
        return FIGURES[self.name].title

    @property
    def share(self) -> float:
        """The rise as a share of `before`: 0.5 is half as much again. Infinite if `before`
        is 0."""
        if self.before > 0.0:
            return self.now / self.before - 1.0
        return math.inf if self.now > 0.0 else 0.0

    @property
    def moved(self) -> str:
        """``410 ms → 3.42 s``."""
        figure = FIGURES[self.name]
        return f"{figure.format(self.before)} → {figure.format(self.now)}"

    @property
    def times(self) -> str:
        """How many times as much as before, to append: `` (× 8.3)``. Empty if `before`
        is 0."""
        share = self.share
        if math.isfinite(share):
            times = format_factor(1.0 + share)
            return f" ({times})"
        return ""


class PairedUsage(Struct, frozen=True):
    """What the answers to the same questions took or cost in both runs."""

    figure: Figure
    before: Values
    """(n,): the values in the baseline."""
    now: Values
    """(n,): the values in this run."""

    @property
    def change(self) -> UsageChange:
        figure = self.figure
        before = figure.compute(self.before)
        now = figure.compute(self.now)
        return UsageChange(figure.name, before, now, len(self.now))

    @property
    def is_telling(self) -> bool:
        """Whether there are enough questions for this figure."""
        return len(self.now) >= self.figure.min_answers

    def is_beyond(self, max_rise: float) -> bool:
        """Whether the figure rose by more than the share `max_rise`, and by its tolerance
        at least."""
        change = self.change
        rise = change.now - change.before
        limit = max_rise * change.before
        is_large = rise > limit and rise >= self.figure.tolerance
        return is_large and self.is_telling

    def p_by_chance(self, max_rise: float) -> float:
        """The probability that so many more questions rose by more than `max_rise` than
        fell by as much, by chance."""
        rose = self._count_rises(self.before, self.now, max_rise)
        fell = self._count_rises(self.now, self.before, max_rise)
        return p_proportion_at_most(rose, rose + fell, 0.5)

    def is_suspected(self, max_rise: float) -> bool:
        """Whether the figure is beyond `max_rise`, and either all questions rose by more
        or chance is ruled out: a few questions can't rule it out."""
        rose = self._count_rises(self.before, self.now, max_rise)
        all_rose = rose == len(self.now)
        is_shown = all_rose or self.p_by_chance(max_rise) <= MAX_P_SUSPECTED
        return is_shown and self.is_beyond(max_rise)

    def _count_rises(self, before: Values, now: Values, max_rise: float) -> int:
        """The number of values that rose by more than the share `max_rise`, and by the
        tolerance at least."""
        rises = now - before
        is_beyond = rises > max_rise * before
        is_noticeable = rises >= self.figure.tolerance
        is_large = np.logical_and(is_beyond, is_noticeable)
        return int(np.count_nonzero(is_large))


def format_factor(value: float) -> str:
    """Write a factor: ``× 1.50``, ``× 8.3``, ``× 20``. No line breaks at its space."""
    if value < 2.0:
        return f"×\u00a0{value:.2f}"
    if value < 9.95:
        return f"×\u00a0{value:.1f}"
    return f"×\u00a0{value:.0f}"


def paired_usage(pairing: Pairing) -> Iterator[PairedUsage]:
    """The figures that both runs measured, on the questions that both answered, latency
    first."""
    current = pairing.current
    baseline = pairing.baseline
    price = baseline.price or current.price
    current_failures = current.system.failures.keys()
    baseline_failures = baseline.system.failures.keys()
    failed = current_failures | baseline_failures
    for figure in FIGURES.values():
        values = _values(current, figure, current.price)
        baseline_values = _values(baseline, figure, price)
        measured = values.keys() & baseline_values.keys()
        measured -= failed
        ids = [sample_id for sample_id in pairing.samples if sample_id in measured]
        if ids:
            before = [baseline_values[sample_id] for sample_id in ids]
            now = [values[sample_id] for sample_id in ids]
            yield PairedUsage(figure, np.array(before), np.array(now))


def _values(
    run: RunScores, figure: Figure, price: SystemPrice | None
) -> Mapping[str, float]:
    """The values of a figure by sample id. Latencies are left out of the first answers,
    and all of them if the system takes no time."""
    values = measured_values(run, figure.name, price)
    if "latency" not in figure.name:
        return values
    if max(values.values(), default=0.0) < MIN_LATENCY_S:
        return {}
    max_first = int(MAX_START_UP_SHARE * len(values))
    first = min(START_UP_ANSWERS, max_first)
    measurements = list(values.items())
    return dict(measurements[first:])


def usage_findings(evidence: Evidence) -> Iterator[Finding]:
    """A fact on each figure, and a warning on those that rose by more than the policy
    allows, or by half if it sets no limit."""
    max_rises = evidence.policy.system.rises
    rises = []
    for usage in paired_usage(evidence.pairing):
        change = usage.change
        text = f"{change.title}: {change.moved}"
        yield Finding(USAGE, Level.FACT, text, data=change)
        max_rise = max_rises.get(usage.figure.limit_key, WARNED_RISE)
        if usage.is_suspected(max_rise):
            title = change.title.lower()
            rises.append(f"{title} {change.moved}{change.times}")
    if rises:
        text = f"Answers take or cost more than in the baseline: {listed(rises)}."
        yield Finding("usage_rose", Level.WARNING, text)
