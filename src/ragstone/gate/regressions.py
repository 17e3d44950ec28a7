"""Samples that got worse, or that are far below their floor (or above their ceiling)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import Direction
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Check, Regression, Status
from ragstone.run.scores import RunScores

MAX_SAMPLES = 1000
"""Samples that a verdict names with their losses; the rest is counted."""

CLEAR_LOSS = 0.1
"""Smaller losses of a sample are mostly noise of a graded judge, and have no cause of their own."""

Losses = Mapping[str, Mapping[str, float]]
"""Loss by metric and sample id; only losses, so above 0."""


def worst_regressions(
    current: RunScores,
    baseline: RunScores | None,
    pairing: Pairing | None,
    rules: Sequence[Rule],
    checks: Sequence[Check],
    *,
    limit: int = MAX_SAMPLES,
) -> tuple[tuple[Regression, ...], int]:
    """The losses of the worst samples, at most `limit` samples, worst first, with the largest loss of each first; and
    how many more samples have a loss.

    With a comparable baseline, a loss is the drop of a pair; without one, the distance to the floor of a failed check.
    Samples are ranked by their losses in the metrics of failed checks, then by their total losses.
    """
    failed = _failed(checks)
    if not _compared(baseline, pairing):
        baseline = None
    losses = _losses(current, baseline, pairing, rules, failed)
    in_failed = _by_sample(losses[metric] for metric in losses if metric in failed)
    in_all = _by_sample(losses.values())
    worst = heapq.nsmallest(limit, in_all, key=lambda i: (-in_failed.get(i, 0.0), -in_all[i], i))
    named = tuple(
        Regression(i, metric, current.metrics[metric].values[i], _before(baseline, metric, i))
        for i in worst
        for metric in sorted(losses, key=lambda name: (-losses[name].get(i, 0.0), name))
        if i in losses[metric]
    )
    return named, len(in_all) - len(worst)


def worse_samples(
    current: RunScores,
    baseline: RunScores | None,
    pairing: Pairing | None,
    rules: Sequence[Rule],
    checks: Sequence[Check],
) -> tuple[str, ...]:
    """All samples that clearly got worse (or are clearly below a floor), and those that the system failed on, sorted.

    They count by the metrics of failed checks, else of all rules. Samples that failed in the baseline too are no news.
    """
    failed = _failed(checks)
    if not _compared(baseline, pairing):
        baseline = None
    losses = _losses(current, baseline, pairing, rules, failed)
    found = {
        sample_id
        for metric, by_id in losses.items()
        if not failed or metric in failed
        for sample_id, loss in by_id.items()
        if loss > CLEAR_LOSS
    }
    known = baseline.system.failures.keys() if baseline is not None else set()
    return tuple(sorted(found | (current.system.failures.keys() - known)))


def _failed(checks: Sequence[Check]) -> set[str]:
    return {check.metric for check in checks if check.status is Status.FAIL and check.metric}


def _compared(baseline: RunScores | None, pairing: Pairing | None) -> bool:
    return baseline is not None and pairing is not None and pairing.comparability.comparable


def _losses(
    current: RunScores,
    baseline: RunScores | None,
    pairing: Pairing | None,
    rules: Sequence[Rule],
    failed: set[str],
) -> Losses:
    if baseline is not None and pairing is not None:
        return _fallen(current, baseline, pairing, {rule.metric: rule.direction for rule in rules})
    return _short(current, [rule for rule in rules if rule.metric in failed])


def _fallen(current: RunScores, baseline: RunScores, pairing: Pairing, metrics: Mapping[str, Direction]) -> Losses:
    losses = {}
    for metric, way in metrics.items():
        ids = pairing.pairs(metric, current, baseline)
        if not ids:
            continue
        now, then = current.metrics[metric].values, baseline.metrics[metric].values
        losses[metric] = {i: loss for i in ids if (loss := -way.shown_change(now[i] - then[i])) > 0.0}
    return losses


def _short(current: RunScores, rules: Iterable[Rule]) -> Losses:
    losses = {}
    for rule in rules:
        if rule.min is not None:
            floor, way = rule.min, rule.direction
            values = current.metrics[rule.metric].values
            losses[rule.metric] = {i: loss for i, value in values.items() if (loss := floor - way.shown(value)) > 0.0}
    return losses


def _by_sample(losses: Iterable[Mapping[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for lost in losses:
        for sample_id, loss in lost.items():
            totals[sample_id] = totals.get(sample_id, 0.0) + loss
    return totals


def _before(baseline: RunScores | None, metric: str, sample_id: str) -> float | None:
    return None if baseline is None else baseline.metrics[metric].values[sample_id]
