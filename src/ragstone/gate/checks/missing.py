"""Missing scores: which are left out as if by chance, and what the worst scores in place of the others would decide.

A few judgements fail by chance, and the mean of the rest is as good as that of all. If those of the answers fail that a
change made bad, it is too good. So failed judgements are left out while there are no more than the usual share
explains, among all samples, in each slice, and among the answers that changed. Otherwise they count as the worst score.
So does each sample that the system gave no answer to, and each that the offline judge failed on, never by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.checks.drops import Drops
from ragstone.gate.checks.floors import Floors
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, Status
from ragstone.stats.intervals import p_proportion_at_most

CHANCE = 0.01
"""The probability at which more failed judgements than usual are no chance; for each metric and part of its samples."""


def verdicts_at_worst(evidence: Evidence) -> dict[tuple[str, str | None], Status]:
    """By metric and slice, where a floor or drop that holds would not hold with the worst scores: what it would be."""
    run, base = evidence.current, evidence.baseline
    missing = {metric: _not_by_chance(metric, scores, evidence) for metric, scores in run.metrics.items()}
    if not any(missing.values()):
        return {}
    if base is not None:
        # A question that neither system answered is no loss, and one that only this one answered is a gain.
        unanswered = {
            metric: [name for name, one in scores.failed.items() if one.by == "system"]
            for metric, scores in base.metrics.items()
        }
        base = _with_worst(base, unanswered, evidence)
    now = {check.name: check.status for check in _floors_and_drops(evidence)}
    found: dict[tuple[str, str | None], Status] = {}
    for check in _floors_and_drops(evidence.with_scores(_with_worst(run, missing, evidence), base)):
        holds = now.get(check.name, Status.PASS) not in (Status.FAIL, check.status)
        if check.metric is not None and holds and check.status is not Status.PASS:
            where = check.metric, check.slice
            found[where] = Status.FAIL if Status.FAIL in (check.status, found.get(where)) else check.status
    return found


def _not_by_chance(metric: str, scores: MetricScores, evidence: Evidence) -> set[str]:
    """The samples whose score of `metric` is missing, and counts as the worst one."""
    if not scores.failed:
        return set()
    judged = {name for name, one in scores.failed.items() if one.by == "judge" and not evidence.offline}
    applies = scores.values.keys() | scores.failed.keys()
    slices = {rule.samples for rule in evidence.rules if rule.metric == metric and rule.samples is not None}
    usual = evidence.policy.gate.max_failed_judgements
    found = scores.failed.keys() - judged
    for part in (applies, *slices, _changed(evidence)):
        lost = part & judged
        if lost and p_proportion_at_most(len(lost), len(part & applies), usual) <= CHANCE:
            found |= lost
    return found


def _changed(evidence: Evidence) -> frozenset[str]:
    """The samples with another answer than in the baseline, as far as both are known."""
    if evidence.pairing is None:
        return frozenset()
    now, then = (run.system.answers for run in (evidence.current, evidence.pairing.baseline))
    return frozenset(name for name in evidence.pairing.samples if name in then and now.get(name) != then[name])


def _with_worst(run: RunScores, missing: Mapping[str, Collection[str]], evidence: Evidence) -> RunScores:
    """`run` with the worst score for the `missing` samples of each metric."""
    metrics = dict(run.metrics)
    for metric, names in missing.items():
        worst = float(evidence.policy.lower_is_better(metric))
        metrics[metric] = replace(metrics[metric], values={**metrics[metric].values, **dict.fromkeys(names, worst)})
    return replace(run, metrics=metrics)


def _floors_and_drops(evidence: Evidence) -> Iterator[Check]:
    kinds = (kind(action) for action in Action for kind in (Floors, Drops))
    return chain.from_iterable(checker.evaluate(evidence) for checker in kinds)
