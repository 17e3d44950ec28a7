"""What would be decided if missing scores were the worst possible ones.

A few judgements fail by chance, and the mean of the others is as good as that of all.
But if the judge fails on the very answers that a change made bad, that mean is too
good. So failed judgements are left out only if there are no more than usual: among all
samples, in each slice, and among the answers that changed. Otherwise they count as the
worst score. So does every sample that the system failed on, and every one that the
offline judge failed on, which never fails by chance.
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

MAX_P_CHANCE = 0.01
"""Chance does not explain the failed judgements of a metric, in one part of its samples,
if as many have at most this probability."""

Place = tuple[str | None, str | None]
"""A metric and a slice, or None for all samples."""


def verdicts_at_worst(evidence: Evidence) -> dict[Place, Status]:
    """The status of each floor and drop that gets worse if missing scores count as the
    worst ones, by metric and slice.

    Drops are decided without the broken questions, here in both cases: those are a check
    of their own.
    """
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
        # Drops of tags that pass have no check.
        status = status_of.get(check.name, Status.PASS)
        is_as_bad = status in (check.status, Status.FAIL)
        is_decided = verdicts.get(check.place) is Status.FAIL
        if not (check.passed or is_as_bad or is_decided):
            verdicts[check.place] = check.status
    return verdicts


def _failed_by(side: str, scores: MetricScores) -> Set[str]:
    """The samples without a score because of the system, or of the judge."""
    return {
        sample_id for sample_id, failure in scores.failed.items() if failure.by == side
    }


def _not_by_chance(metric: str, scores: MetricScores, evidence: Evidence) -> Set[str]:
    """The samples whose score of `metric` is missing and counts as the worst one."""
    if evidence.is_offline:
        return scores.failed.keys()
    failed_judgements = _failed_by("judge", scores)
    missing = scores.failed.keys() - failed_judgements
    slices = [
        rule.samples
        for rule in evidence.rules
        if rule.metric == metric and rule.samples is not None
    ]
    usual = evidence.policy.gate.max_failed_judgements
    applies_to = scores.applies_to
    for part in (applies_to, *slices, _with_other_answers(evidence)):
        failed = part & failed_judgements
        total = len(part & applies_to)
        p_value = p_proportion_at_most(len(failed), total, usual)
        if p_value <= MAX_P_CHANCE:
            missing |= failed
    return missing


def _with_other_answers(evidence: Evidence) -> Set[str]:
    """The paired samples with another answer than in the baseline, if that one is
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
        worst = 1.0 if evidence.policy.lower_is_better(metric) else 0.0
        scores = metrics[metric]
        values = scores.values | dict.fromkeys(samples, worst)
        metrics[metric] = replace(scores, values=values)
    return replace(run, metrics=metrics)


def _floors_and_drops(evidence: Evidence) -> Iterator[Check]:
    yield from Floors().evaluate(evidence)
    yield from Drops().evaluate(evidence)
