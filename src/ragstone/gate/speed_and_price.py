"""Latency, tokens and cost of an answer before and now, on the questions that both runs
measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import listed
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import USAGE, Finding, Level
from ragstone.gate.usage_change import (
    COST,
    FIGURES,
    MEDIAN_LATENCY,
    P95_LATENCY,
    TOKENS,
    Figure,
    PairedUsage,
    UsageChange,
    measured_values,
)
from ragstone.settings.settings import SystemPrice

USAGE_ROSE = "usage_rose"
"""The kind of the warning that answers are slower or dearer."""

WARNED_RISE = 0.5 - 1e-9
"""A rise of more is warned of where the policy limits none: from half as much again
on."""

MIN_LATENCY_S = 0.01
"""Where no answer takes longer, latency says nothing of the system."""

START_UP_ANSWERS = 4
"""How many of the first answers of a run are left out of its latencies: they wait for
imports, models and connections.

As many as the default concurrency, since each worker has a first answer."""
START_UP_SHARE = 0.2
"""The largest share of the answers that is left out."""


def paired_usage(pairing: Pairing | None) -> tuple[PairedUsage, ...]:
    """The figures that both runs report, latency first."""
    if pairing is None:
        return ()
    figures = [_paired(pairing, figure) for figure in FIGURES.values()]
    return tuple(usage for usage in figures if len(usage.now))


def usage_line(changes: Sequence[UsageChange]) -> str:
    """All figures in one line; empty if there are none.

    ``Per answer: 412 ms → 3.42 s (p95 602 ms → 3.61 s), 812 → 16,240 tokens, $0.0021 →
    $0.042.``
    """
    moved = {change.name: change.moved for change in changes}
    parts = []
    if MEDIAN_LATENCY.name in moved:
        parts.append(f"{moved[MEDIAN_LATENCY.name]} (p95 {moved[P95_LATENCY.name]})")
    if TOKENS.name in moved:
        parts.append(f"{moved[TOKENS.name]} tokens")
    if COST.name in moved:
        parts.append(moved[COST.name])
    if not parts:
        return ""
    return f"Per answer: {', '.join(parts)}."


def usage_findings(evidence: Evidence) -> Iterator[Finding]:
    """Each figure before and now, and a warning if one rose by more than the policy
    allows, or by half."""
    figures = paired_usage(evidence.pairing)
    max_rises = evidence.policy.system.rises
    rises: list[str] = []
    for usage in figures:
        change = usage.change
        text = f"{change.title}: {change.moved}"
        yield Finding(USAGE, Level.FACT, text, data=change)
        if usage.is_suspected(max_rises.get(usage.figure.limit, WARNED_RISE)):
            rises.append(f"{change.title.lower()} {change.moved}{change.times}")
    if rises:
        text = f"Answers take or cost more than in the baseline: {listed(rises)}."
        yield Finding(USAGE_ROSE, Level.WARNING, text)


def _paired(pairing: Pairing, figure: Figure) -> PairedUsage:
    """The figure of the questions that both runs answered."""
    failed = (
        pairing.current.system.failures.keys() | pairing.baseline.system.failures.keys()
    )
    price = pairing.current.price
    values = _values(pairing.current, figure, price)
    baseline_values: Mapping[str, float] = {}
    if values:
        baseline_values = _values(
            pairing.baseline, figure, pairing.baseline.price or price
        )
    measured = (values.keys() & baseline_values.keys()) - failed
    ids = [sample_id for sample_id in pairing.samples if sample_id in measured]
    before = np.array([baseline_values[sample_id] for sample_id in ids])
    now = np.array([values[sample_id] for sample_id in ids])
    return PairedUsage(figure, before, now)


def _values(
    run: RunScores, figure: Figure, price: SystemPrice | None
) -> Mapping[str, float]:
    """The values by question: of latencies, without the first answers, and none of a
    system that takes no time."""
    values = measured_values(run, figure.name, price)
    if figure.limit != MEDIAN_LATENCY.limit:
        return values
    if max(values.values(), default=0.0) < MIN_LATENCY_S:
        return {}
    first = min(START_UP_ANSWERS, int(START_UP_SHARE * len(values)))
    return dict(list(values.items())[first:])
