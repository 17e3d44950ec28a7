"""Latency, tokens and cost of an answer before and now, on the questions that both runs measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.usage import cost_usd, tokens
from ragstone.formatting import listed
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import USAGE, Finding, Level
from ragstone.gate.usage_change import COST, MEDIAN_LATENCY, P95_LATENCY, TOKENS, Figure, PairedUsage, UsageChange
from ragstone.settings.settings import SystemPrice

USAGE_ROSE = "usage_rose"
"""The kind of the warning that answers are slower or dearer."""

WARNED_RISE = 0.5 - 1e-9
"""A rise of more is warned of where the policy limits none: from half as much again on."""

MIN_LATENCY_S = 0.01
"""Where no answer takes longer, latency says nothing of the system."""

START_UP_ANSWERS, START_UP_SHARE = 4, 0.2
"""How many of the first answers of a run are left out of its latencies, and the largest share of them: they wait for
imports, models and connections. As many as the default concurrency, since each worker has a first answer."""


def paired_usage(pairing: Pairing | None) -> tuple[PairedUsage, ...]:
    """The figures that both runs report, latency first."""
    return () if pairing is None else tuple(_paired_figures(pairing))


def usage_line(changes: Sequence[UsageChange]) -> str:
    """All figures in one line; empty if there are none.

    ``Per answer: 412 ms → 3.42 s (p95 602 ms → 3.61 s), 812 → 16,240 tokens, $0.0021 → $0.042.``
    """
    by_name = {change.name: change for change in changes}
    parts = []
    if (median := by_name.get(MEDIAN_LATENCY.name)) is not None:
        p95_latency = by_name.get(P95_LATENCY.name)
        parts.append(median.moved + (f" (p95 {p95_latency.moved})" if p95_latency is not None else ""))
    if (token_count := by_name.get(TOKENS.name)) is not None:
        parts.append(f"{token_count.moved} tokens")
    if (cost := by_name.get(COST.name)) is not None:
        parts.append(cost.moved)
    return f"Per answer: {', '.join(parts)}." if parts else ""


_WORDS = {
    MEDIAN_LATENCY.name: "median latency",
    P95_LATENCY.name: "p95 of latency",
    TOKENS.name: "tokens",
    COST.name: "cost",
}


def usage_findings(evidence: Evidence) -> Iterator[Finding]:
    """Each figure before and now, and a warning if one rose by more than the policy allows, or by half."""
    figures, max_rises = paired_usage(evidence.pairing), evidence.policy.system.rises
    for usage in figures:
        yield Finding(USAGE, Level.FACT, f"{usage.figure.title}: {usage.change.moved}", data=usage.change)
    rose = [usage.change for usage in figures if usage.is_suspected(max_rises.get(usage.figure.limit, WARNED_RISE))]
    slower = [change for change in rose if change.limit_key == MEDIAN_LATENCY.limit]
    dearer = [change for change in rose if change not in slower]
    if rose:
        words = (["slower"] if slower else []) + (["dearer"] if dearer else [])
        shown = [f"{_WORDS[change.name]} {change.moved}{change.times}" for change in (*slower[:1], *dearer)]
        text = f"Answers are {' and '.join(words)} than in the baseline: {listed(shown)}."
        yield Finding(USAGE_ROSE, Level.WARNING, text)


def _paired_figures(pairing: Pairing) -> Iterator[PairedUsage]:
    now, before = pairing.current, pairing.baseline
    price_now = _price_of(now)
    price_before = _price_of(before) or price_now
    yield from _paired(pairing, (MEDIAN_LATENCY, P95_LATENCY), _latencies_s(before), _latencies_s(now))
    yield from _paired(pairing, (TOKENS,), _tokens(before), _tokens(now))
    if price_now is not None and price_before is not None:
        yield from _paired(pairing, (COST,), _costs_usd(before, price_before), _costs_usd(now, price_now))


def _paired(
    pairing: Pairing, figures: Sequence[Figure], before: Mapping[str, float], now: Mapping[str, float]
) -> Iterator[PairedUsage]:
    """The `figures` of the questions that both runs answered, if there are any."""
    failed = pairing.current.system.failures.keys() | pairing.baseline.system.failures.keys()
    ids = [name for name in pairing.samples if name in now and name in before and name not in failed]
    if ids:
        values_before, values_now = (np.array([values[name] for name in ids]) for values in (before, now))
        yield from (PairedUsage(figure, values_before, values_now) for figure in figures)


def _latencies_s(run: RunScores) -> dict[str, float]:
    """The latencies by question, without the first answers; none of a system that takes no time."""
    latencies = list(run.system.latencies_s.items())
    if all(latency < MIN_LATENCY_S for _, latency in latencies):
        return {}
    first = min(START_UP_ANSWERS, int(START_UP_SHARE * len(latencies)))
    return dict(latencies[first:])


def _tokens(run: RunScores) -> dict[str, float]:
    return {name: float(tokens(usage)) for name, usage in run.system.usage.items()}


def _costs_usd(run: RunScores, price: SystemPrice) -> dict[str, float]:
    return {name: cost_usd(usage, price) for name, usage in run.system.usage.items()}


def _price_of(run: RunScores) -> SystemPrice | None:
    return None if run.manifest is None else run.manifest.price
