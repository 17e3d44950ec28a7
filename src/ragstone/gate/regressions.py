"""Samples that got worse, or that are far below their floor (or above their ceiling)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.must_pass import shortfalls
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Regression, Status

MAX_SAMPLES = 1000
"""Samples that a verdict names with their losses; the rest is counted."""

CLEAR_LOSS = 0.1
"""Smaller losses of a sample are mostly noise of a graded judge, and have no cause of their own."""

Losses = Mapping[str, Mapping[str, float]]
"""Loss by metric and sample id; only losses, so above 0."""


def worst_regressions(evidence: Evidence, *, limit: int = MAX_SAMPLES) -> tuple[tuple[Regression, ...], int]:
    """The losses of the worst samples, at most `limit` samples, worst first, with the largest loss of each first; and
    how many more samples have a loss.

    With a comparable baseline, a loss is the drop of a pair; without one, the distance to the floor of a failed check,
    or to what a must-pass sample must reach.
    Samples are ranked by their losses in the metrics of failed checks, then by their total losses.
    """
    failed, losses = _losses(evidence)
    in_failed = _by_sample(losses[metric] for metric in losses if metric in failed)
    in_all = _by_sample(losses.values())
    worst = heapq.nsmallest(limit, in_all, key=lambda i: (-in_failed.get(i, 0.0), -in_all[i], i))
    before = None if evidence.compared is None else evidence.compared.baseline.metrics
    named = tuple(
        Regression(
            i, metric, evidence.current.metrics[metric].values[i], None if before is None else before[metric].values[i]
        )
        for i in worst
        for metric in sorted(losses, key=lambda name: (-losses[name].get(i, 0.0), name))
        if i in losses[metric]
    )
    return named, len(in_all) - len(worst)


def worse_samples(evidence: Evidence) -> tuple[str, ...]:
    """All samples that clearly got worse (or are clearly below a floor), and those that the system failed on, sorted.

    They count by the metrics of failed checks, else of all rules. Samples that failed in the baseline too are no news.
    """
    failed, losses = _losses(evidence)
    found = {
        sample_id
        for metric, by_id in losses.items()
        if not failed or metric in failed
        for sample_id, loss in by_id.items()
        if loss > CLEAR_LOSS
    }
    known = set() if evidence.compared is None else evidence.compared.baseline.system.failures.keys()
    return tuple(sorted(found | (evidence.current.system.failures.keys() - known)))


def _losses(evidence: Evidence) -> tuple[set[str], Losses]:
    """The metrics of failed checks, and the losses."""
    failed = {
        check.metric
        for check in evidence.decided
        if check.status is Status.FAIL and check.metric and not check.by_words
    }
    if evidence.compared is not None:
        return failed, _fallen(evidence.compared, {rule.metric: rule.direction for rule in evidence.rules})
    short = _short(evidence.current, [rule for rule in evidence.rules if rule.metric in failed])
    alone = shortfalls(evidence)
    return failed, {name: {**alone.get(name, {}), **short.get(name, {})} for name in alone.keys() | short.keys()}


def _fallen(pairing: Pairing, metrics: Mapping[str, Direction]) -> Losses:
    losses = {}
    for metric, way in metrics.items():
        if ids := pairing.pairs(metric):
            changes = zip(ids, pairing.changes(metric), strict=True)
            losses[metric] = {i: loss for i, change in changes if (loss := -way.shown_change(change)) > 0.0}
    return losses


def _short(current: RunScores, rules: Iterable[Rule]) -> Losses:
    losses = {}
    for rule in rules:
        if rule.min is not None:
            floor = rule.min
            way = rule.direction
            values = current.metrics[rule.metric].values
            losses[rule.metric] = {i: loss for i, value in values.items() if (loss := floor - way.shown(value)) > 0.0}
    return losses


def _by_sample(losses: Iterable[Mapping[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for lost in losses:
        for sample_id, loss in lost.items():
            totals[sample_id] = totals.get(sample_id, 0.0) + loss
    return totals
