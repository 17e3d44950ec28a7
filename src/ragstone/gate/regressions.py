"""Samples that got worse, or that are far below their floor (or above their
ceiling)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ragstone.gate.checks.must_pass import shortfalls
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Regression

MAX_SAMPLES = 1000
"""Samples that a verdict names with their losses; the rest is counted."""

CLEAR_LOSS = 0.1
"""Smaller losses of a sample are mostly noise of a graded judge, and have no cause of
their own."""

Losses = Mapping[str, Mapping[str, float]]
"""Loss by metric and sample id; only losses, so above 0."""


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
    in_failed: dict[str, float] = defaultdict(float)
    in_all: dict[str, float] = defaultdict(float)
    for metric, by_sample in losses.items():
        for sample_id, loss in by_sample.items():
            in_all[sample_id] += loss
            if metric in failed:
                in_failed[sample_id] += loss
    ranked = sorted(in_all, key=lambda name: (-in_failed[name], -in_all[name], name))
    regressions: list[Regression] = []
    for sample_id in ranked[:limit]:
        regressions += _regressions_of(sample_id, losses, evidence)
    return tuple(regressions), len(ranked[limit:])


def _regressions_of(
    sample_id: str, losses: Losses, evidence: Evidence
) -> Iterator[Regression]:
    """The losses of one sample, the largest first."""
    metrics = [metric for metric in losses if sample_id in losses[metric]]
    metrics.sort(key=lambda metric: (-losses[metric][sample_id], metric))
    for metric in metrics:
        current = evidence.current.metrics[metric].values[sample_id]
        baseline = None
        if evidence.compared is not None:
            baseline = evidence.compared.baseline.metrics[metric].values[sample_id]
        yield Regression(sample_id, metric, current, baseline)


def worse_samples(evidence: Evidence) -> tuple[str, ...]:
    """All samples that clearly got worse (or are clearly below a floor), and those that
    the system failed on, sorted.

    They count by the metrics of failed checks, else of all rules. Samples that failed
    in the baseline too are no news.
    """
    failed = _failed_metrics(evidence)
    worse = set(evidence.current.system.failures)
    if evidence.compared is not None:
        worse -= evidence.compared.baseline.system.failures.keys()
    for metric, by_sample in _losses(evidence).items():
        if not failed or metric in failed:
            worse |= {name for name, loss in by_sample.items() if loss > CLEAR_LOSS}
    return tuple(sorted(worse))


def _failed_metrics(evidence: Evidence) -> set[str]:
    """The metrics of failed checks, apart from those that only words show."""
    failed = [
        check for check in evidence.decided if check.failed and not check.by_words
    ]
    return {check.metric for check in failed if check.metric}


def _losses(evidence: Evidence) -> Losses:
    losses: dict[str, dict[str, float]] = defaultdict(dict)
    pairing = evidence.compared
    if pairing is not None:
        for rule in evidence.rules:
            if rule.metric not in pairing.metrics:
                continue
            ids = pairing.pairs(rule.metric)
            changes = pairing.changes(rule.metric)
            for sample_id, change in zip(ids, changes, strict=True):
                loss = -rule.direction.shown_change(change)
                if loss > 0.0:
                    losses[rule.metric][sample_id] = loss
        return losses
    losses |= shortfalls(evidence)
    failed = _failed_metrics(evidence)
    for rule in evidence.rules:
        if rule.min is None or rule.metric not in failed:
            continue
        for sample_id, value in evidence.current.metrics[rule.metric].values.items():
            loss = rule.min - rule.direction.shown(value)
            is_covered = rule.samples is None or sample_id in rule.samples
            if loss > 0.0 and is_covered:
                losses[rule.metric][sample_id] = loss
    return losses
