"""Samples that got worse, or that are far below their floor (or above their
ceiling)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ragstone.gate.checks.must_pass import shortfalls
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Regression

MAX_SAMPLES = 1000
"""Samples that a verdict names with their losses; the rest is counted."""

CLEAR_LOSS = 0.1
"""Smaller losses of a sample are mostly noise of a graded judge, and have no cause of
their own."""


def worst_regressions(
    evidence: Evidence, *, limit: int = MAX_SAMPLES
) -> tuple[tuple[Regression, ...], int]:
    """The losses of the worst samples, at most `limit` samples, worst first, with the
    largest loss of each first; and how many more samples have a loss.

    With a comparable baseline, a loss is the drop of a pair; without one, the distance
    to the floor of a failed check, or to what a must-pass sample must reach. Samples
    are ranked by their losses in the metrics of failed checks, then by their total
    losses.
    """
    failed = _failed_metrics(evidence)
    losses = _losses(evidence)
    metrics = evidence.current.metrics
    baseline = evidence.compared.baseline

    def rank(sample_id: str) -> tuple[float, float, str]:
        by_metric = losses[sample_id]
        in_failed = [loss for metric, loss in by_metric.items() if metric in failed]
        failed_loss = sum(in_failed)
        total_loss = sum(by_metric.values())
        return -failed_loss, -total_loss, sample_id

    ranked = sorted(losses, key=rank)
    regressions: list[Regression] = []
    for sample_id in ranked[:limit]:
        by_metric = losses[sample_id]
        by_size = sorted(by_metric, key=lambda name: (-by_metric[name], name))
        for metric in by_size:
            now = metrics[metric].values[sample_id]
            before = baseline.scores_of(metric).values.get(sample_id)
            regression = Regression(sample_id, metric, now, before)
            regressions.append(regression)
    unnamed = ranked[limit:]
    return tuple(regressions), len(unnamed)


def worse_samples(evidence: Evidence) -> tuple[str, ...]:
    """All samples that clearly got worse (or are clearly below a floor), and those that
    the system failed on, sorted.

    They count by the metrics of failed checks, else of all rules. Samples that failed
    in the baseline too are no news.
    """
    failed = _failed_metrics(evidence)
    worse = set(evidence.current.system.failures)
    worse -= evidence.compared.baseline.system.failures.keys()
    losses = _losses(evidence)
    for sample_id, by_metric in losses.items():
        for metric, loss in by_metric.items():
            is_counted = not failed or metric in failed
            if is_counted and loss > CLEAR_LOSS:
                worse.add(sample_id)
    return tuple(sorted(worse))


def _failed_metrics(evidence: Evidence) -> set[str]:
    """The metrics of failed checks, apart from those that only words show."""
    failed = [check for check in evidence.checks if check.failed and not check.by_words]
    return {check.metric for check in failed if check.metric}


def _losses(evidence: Evidence) -> Mapping[str, dict[str, float]]:
    """Losses by sample id and metric: all are above 0."""
    losses: dict[str, dict[str, float]] = defaultdict(dict)
    if evidence.is_compared:
        for rule in evidence.rules:
            changes = evidence.pairing.changes(rule.metric)
            for sample_id, change in changes.items():
                loss = -rule.direction.reported_change(change)
                if loss > 0.0:
                    losses[sample_id][rule.metric] = loss
        return losses
    losses |= shortfalls(evidence)
    failed = _failed_metrics(evidence)
    for floor in evidence.floors:
        if floor.rule.metric in failed:
            scores = zip(floor.samples, floor.values.tolist(), strict=True)
            for sample_id, score in scores:
                loss = floor.bound - score
                if loss > 0.0:
                    losses[sample_id][floor.rule.metric] = loss
    return losses
