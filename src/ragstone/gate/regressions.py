"""Samples that got worse, or that are far below their floor (or above their
ceiling)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ragstone.gate.checks.must_pass import shortfalls
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Regression

MAX_SAMPLES = 1000
"""The most samples that a verdict names with their losses; others are only counted."""

CLEAR_LOSS = 0.1
"""A smaller loss of a sample is mostly noise of a judge that grades, so no cause is
looked for."""


def worst_regressions(
    evidence: Evidence, *, limit: int = MAX_SAMPLES
) -> tuple[tuple[Regression, ...], int]:
    """The losses of at most `limit` samples, the worst sample first, and the largest
    loss of each first; and the number of other samples with a loss.

    With a comparable baseline, a loss is the fall of a score since then; without one,
    the distance to the floor of a failed check, or to what a must-pass sample must
    reach. Samples are ranked by their losses in the metrics of failed checks, then by
    their total losses.
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
            score = metrics[metric].values[sample_id]
            baseline_score = baseline.scores_of(metric).values.get(sample_id)
            regression = Regression(sample_id, metric, score, baseline_score)
            regressions.append(regression)
    omitted = ranked[limit:]
    return tuple(regressions), len(omitted)


def worse_samples(evidence: Evidence) -> tuple[str, ...]:
    """The ids of all samples that clearly got worse (or are clearly below a floor), and
    of those that the system fails on now and did not in the baseline, sorted.

    If checks failed, only losses in their metrics count.
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
    """The metrics of failed checks, apart from losses that only words show."""
    failed = [check for check in evidence.checks if check.failed and not check.by_words]
    return {check.metric for check in failed if check.metric}


def _losses(evidence: Evidence) -> Mapping[str, dict[str, float]]:
    """The losses above 0, by sample id and metric."""
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
