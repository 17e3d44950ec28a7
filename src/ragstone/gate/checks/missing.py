"""Missing scores: which are left out as if by chance, and what the worst scores in
place of the others would decide.

A few judgements fail by chance, and the mean of the rest is as good as that of all. If
those of the answers fail that a change made bad, it is too good. So failed judgements
are left out while there are no more than the usual share explains, among all samples,
in each slice, and among the answers that changed. Otherwise they count as the worst
score. So does each sample that the system gave no answer to, and each that the offline
judge failed on, never by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from msgspec.structs import replace

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.checks.drops import Drops
from ragstone.gate.checks.floors import Floors
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, Status
from ragstone.stats.intervals import p_proportion_at_most

CHANCE = 0.01
"""The probability at which more failed judgements than usual are no chance; for each
metric and part of its samples."""

Place = tuple[str | None, str | None]


def verdicts_at_worst(evidence: Evidence) -> dict[Place, Status]:
    """By metric and slice, where a floor or drop that holds would not hold with the
    worst scores: what it would be."""
    run = evidence.current
    missing = {
        metric: _not_by_chance(metric, scores, evidence)
        for metric, scores in run.metrics.items()
    }
    if not any(missing.values()):
        return {}
    # A question that neither system answered is no loss, and one that only this one
    # answered is a gain.
    unanswered = {
        metric: _failed_by("system", scores)
        for metric, scores in evidence.baseline.metrics.items()
    }
    baseline = _with_worst(evidence.baseline, unanswered, evidence)
    run_at_worst = _with_worst(run, missing, evidence)
    at_worst = evidence.with_scores(run_at_worst, baseline)
    status_of = {check.name: check.status for check in _floors_and_drops(evidence)}
    verdicts: dict[Place, Status] = {}
    for check in _floors_and_drops(at_worst):
        status = status_of.get(check.name, Status.PASS)
        holds = check.passed or status in (check.status, Status.FAIL)
        if not holds and verdicts.get(check.place) is not Status.FAIL:
            verdicts[check.place] = check.status
    return verdicts


def _failed_by(side: str, scores: MetricScores) -> Set[str]:
    return {name for name, failure in scores.failed.items() if failure.by == side}


def _not_by_chance(metric: str, scores: MetricScores, evidence: Evidence) -> Set[str]:
    """The samples whose score of `metric` is missing, and counts as the worst one."""
    if evidence.is_offline:
        return scores.failed.keys()
    judged = _failed_by("judge", scores)
    missing = scores.failed.keys() - judged
    slices = [
        rule.samples
        for rule in evidence.rules
        if rule.metric == metric and rule.samples is not None
    ]
    usual = evidence.policy.gate.max_failed_judgements
    applies_to = scores.applies_to
    for part in (applies_to, *slices, _changed(evidence)):
        failed = part & judged
        total = len(part & applies_to)
        p_value = p_proportion_at_most(len(failed), total, usual)
        if p_value <= CHANCE:
            missing |= failed
    return missing


def _changed(evidence: Evidence) -> Set[str]:
    """The samples with another answer than in the baseline, as far as both are
    known."""
    answers = evidence.current.system.answers
    baseline_answers = evidence.baseline.system.answers
    return {
        sample_id
        for sample_id in baseline_answers.keys() & set(evidence.pairing.samples)
        if answers.get(sample_id) != baseline_answers[sample_id]
    }


def _with_worst(
    run: RunScores, missing: Mapping[str, Set[str]], evidence: Evidence
) -> RunScores:
    """`run` with the worst score for the `missing` samples of each metric."""
    metrics = dict(run.metrics)
    for metric, samples in missing.items():
        worst = float(evidence.policy.lower_is_better(metric))
        scores = metrics[metric]
        values = scores.values | dict.fromkeys(samples, worst)
        metrics[metric] = replace(scores, values=values)
    return replace(run, metrics=metrics)


def _floors_and_drops(evidence: Evidence) -> Iterator[Check]:
    yield from Floors().evaluate(evidence)
    yield from Drops().evaluate(evidence)
