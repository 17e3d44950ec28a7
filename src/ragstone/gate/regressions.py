"""Samples that got worse, or that are far below their floor (or above their
ceiling)."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping

from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.must_pass import shortfalls
from ragstone.gate.comparability import Pairing
from ragstone.gate.direction import Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
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
    losses = _losses(evidence, failed)
    in_failed = _by_sample(losses[metric] for metric in losses if metric in failed)
    in_all = _by_sample(losses.values())

    def rank(sample_id: str) -> tuple[float, float, str]:
        return -in_failed.get(sample_id, 0.0), -in_all[sample_id], sample_id

    worst = heapq.nsmallest(limit, in_all, key=rank)
    regressions: list[Regression] = []
    for sample_id in worst:
        regressions += _regressions_of(sample_id, losses, evidence)
    return tuple(regressions), len(in_all) - len(worst)


def _regressions_of(
    sample_id: str, losses: Losses, evidence: Evidence
) -> Iterator[Regression]:
    """The losses of one sample, the largest first."""
    metrics = [metric for metric in losses if sample_id in losses[metric]]
    for metric in sorted(
        metrics, key=lambda metric: (-losses[metric][sample_id], metric)
    ):
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
    for metric, by_sample in _losses(evidence, failed).items():
        if not failed or metric in failed:
            worse |= {
                sample_id for sample_id, loss in by_sample.items() if loss > CLEAR_LOSS
            }
    return tuple(sorted(worse))


def _failed_metrics(evidence: Evidence) -> set[str]:
    """The metrics of failed checks, apart from those that only words show."""
    failed = [
        check for check in evidence.decided if check.failed and not check.by_words
    ]
    return {check.metric for check in failed if check.metric}


def _losses(evidence: Evidence, failed: Collection[str]) -> Losses:
    if evidence.compared is not None:
        return _fallen(
            evidence.compared, {rule.metric: rule.direction for rule in evidence.rules}
        )
    losses = shortfalls(evidence)
    short = _short(
        evidence.current, [rule for rule in evidence.rules if rule.metric in failed]
    )
    for metric, by_sample in short.items():
        losses[metric] = {**losses.get(metric, {}), **by_sample}
    return losses


def _fallen(pairing: Pairing, directions: Mapping[str, Direction]) -> Losses:
    losses: dict[str, dict[str, float]] = {}
    for metric, direction in directions.items():
        ids = pairing.pairs(metric)
        if ids:
            changes = zip(ids, pairing.changes(metric), strict=True)
            losses[metric] = _only_losses(
                {
                    sample_id: -direction.shown_change(change)
                    for sample_id, change in changes
                }
            )
    return losses


def _short(current: RunScores, rules: Iterable[Rule]) -> Losses:
    losses: dict[str, dict[str, float]] = {}
    for rule in rules:
        if rule.min is not None:
            shown = rule.direction.shown
            values = current.metrics[rule.metric].values
            losses[rule.metric] = _only_losses(
                {name: rule.min - shown(value) for name, value in values.items()}
            )
    return losses


def _only_losses(losses: Mapping[str, float]) -> dict[str, float]:
    return {sample_id: loss for sample_id, loss in losses.items() if loss > 0.0}


def _by_sample(losses: Iterable[Mapping[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for by_sample in losses:
        for sample_id, loss in by_sample.items():
            totals[sample_id] = totals.get(sample_id, 0.0) + loss
    return totals
