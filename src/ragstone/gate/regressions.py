"""The samples that got worse, or that are far below their floor."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence

from ragstone.gate.comparability import Pairing
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Check, Regression, Status
from ragstone.run.scores import RunScores

MOST_REGRESSIONS = 20


def worst_regressions(
    current: RunScores,
    baseline: RunScores | None,
    pairing: Pairing | None,
    rules: Sequence[Rule],
    checks: Sequence[Check],
    *,
    limit: int = MOST_REGRESSIONS,
) -> tuple[Regression, ...]:
    """At most `limit` samples, worst first: those of failed checks before the rest, then by how much they lost.

    With a comparable baseline: every pair that got worse. Without one: samples below the floor of a failed check.
    """
    failed = {check.metric for check in checks if check.status is Status.FAIL and check.metric}
    if baseline is not None and pairing is not None and pairing.comparability.comparable:
        found = _lost(current, baseline, pairing, {rule.metric for rule in rules}, limit)
    else:
        floors = {rule.metric: rule.min for rule in rules if rule.min is not None and rule.metric in failed}
        found = _below_floor(current, floors)
    ranked = heapq.nsmallest(
        limit, found, key=lambda one: (one[1].metric not in failed, -one[0], one[1].sample_id, one[1].metric)
    )
    return tuple(regression for _, regression in ranked)


def _lost(
    current: RunScores, baseline: RunScores, pairing: Pairing, metrics: Collection[str], limit: int
) -> list[tuple[float, Regression]]:
    found = []
    for metric in sorted(metrics):
        ids = pairing.pairs(metric, current, baseline)
        if not ids:
            continue
        now, then = current.metrics[metric].values, baseline.metrics[metric].values
        losses = ((then[i] - now[i], i) for i in ids)
        for loss, i in heapq.nsmallest(limit, losses, key=lambda one: (-one[0], one[1])):
            if loss > 0.0:
                found.append((loss, Regression(i, metric, now[i], then[i])))
    return found


def _below_floor(current: RunScores, floors: Mapping[str, float]) -> list[tuple[float, Regression]]:
    return [
        (floor - value, Regression(sample_id, metric, value, None))
        for metric, floor in floors.items()
        for sample_id, value in current.metrics[metric].values.items()
        if value < floor
    ]
