"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import SCORE_STEPS, RunScores
from ragstone.gate.comparability import Pairing
from ragstone.gate.grouping import group_labels
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Interval
from ragstone.stats.arrays import Floats
from ragstone.stats.estimate import Estimate
from ragstone.stats.losses import Change, row_means

ROUNDING = 1e-9
"""A mean that misses its bound by less does not miss it: 0.1 + 0.2 is not 0.3 in
binary."""


class Floor(Struct, frozen=True):
    """A floor to decide. Where less is better, all numbers are those of 1 − score."""

    rule: Rule
    samples: tuple[str, ...]
    """The ids of the samples that count here, sorted."""
    values: Floats
    """(n,): the scores of `samples`."""
    bound: float
    """The least mean."""

    @property
    def current(self) -> float:
        """The mean of the scores."""
        return float(self.values.mean())


class Drop(Struct, frozen=True):
    """A drop to decide. Where less is better, all numbers are those of 1 − score."""

    rule: Rule
    samples: tuple[str, ...]
    """The ids of the samples that count here, sorted."""
    bound: float
    """The least mean of the changes: minus the allowed drop."""
    change: Change
    """The scores of `samples` in both runs."""

    @property
    def values(self) -> Floats:
        """(n,): the changes of the scores."""
        return self.change.values

    @property
    def estimate(self) -> float:
        """The mean of the changes."""
        return float(self.values.mean())

    @property
    def is_beyond(self) -> bool:
        """Whether the estimate is below the bound."""
        return self.estimate < self.bound - ROUNDING


def mean_score(scores: Floats) -> float:
    """The mean over n questions of their mean `scores` (n, k)."""
    return float(row_means(scores).mean())


def reported_interval(limits: Estimate, reported: Callable[[float], float]) -> Interval:
    """The interval with both ends as reports show them; where less is better, they
    change places."""
    ends = [reported(limits.low), reported(limits.high)]
    low, high = sorted(ends)
    return Interval(low, high, limits.confidence, limits.method)


def floors_of(run: RunScores, rules: Sequence[Rule]) -> Iterator[Floor]:
    """The floors in the rules that have at least one score."""
    ids = sorted(run.samples)
    for rule in rules:
        values = run.scores_of(rule.metric).values
        samples = rule.covered(sample_id for sample_id in ids if sample_id in values)
        if rule.min is not None and samples:
            scores = [values[sample_id] for sample_id in samples]
            oriented = _oriented(np.array(scores), rule)
            yield Floor(rule, samples, oriented, rule.min)


def drops_of(pairing: Pairing, rules: Sequence[Rule]) -> Iterator[Drop]:
    """The drops in the rules that have at least one pair."""
    ids = sorted(pairing.current.samples)
    groups = group_labels(pairing.current, ids)
    index_of = {sample_id: index for index, sample_id in enumerate(ids)}
    for rule in rules:
        samples = rule.covered(pairing.changes(rule.metric))
        if rule.max_drop is None or not samples:
            continue
        bound = 0.0 - rule.max_drop  # not -max_drop, which would make -0.0 of 0.0
        # An accepted drop is expected, not suspected: nothing up to its size is
        # inconclusive.
        expected = 0.0 if rule.accepted is None else bound
        after = answer_table(rule, samples, pairing.current)
        before = answer_table(rule, samples, pairing.baseline)
        if before.shape[1] > 1:
            # Runs of the history, whose scores are rounded: equal ones must stay equal.
            after = np.rint(after * SCORE_STEPS) / SCORE_STEPS
            before = np.rint(before * SCORE_STEPS) / SCORE_STEPS
        units = np.array([index_of[sample_id] for sample_id in samples])
        change = Change(
            units, after=after, before=before, groups=groups, expected=expected
        )
        yield Drop(rule, samples, bound, change)


def changes_of(drops: Sequence[Drop]) -> list[Change]:
    """The scores behind `drops`; for a slice, also those of the whole metric that it is
    a part of."""
    wholes = {
        drop.rule.metric: drop.change for drop in drops if drop.rule.slice is None
    }
    changes = []
    for drop in drops:
        change = drop.change
        if drop.rule.slice is not None:
            whole = wholes.get(drop.rule.metric)
            change = replace(change, is_part=True, metric_change=whole)
        changes.append(change)
    return changes


def answers_per_sample(run: RunScores) -> int:
    """The number of times that the system was asked each question; 1 for a plain score
    file."""
    if run.manifest is None:
        return 1
    return run.manifest.answers


def answer_table(rule: Rule, ids: tuple[str, ...], run: RunScores) -> Floats:
    """The scores (n, k) of the k answers to each of n questions, or 1 − score where less
    is better.

    Rows with fewer answers are filled up with NaN.
    """
    scores = run.metrics[rule.metric]
    rows = [
        scores.answers.get(sample_id) or (scores.values[sample_id],)
        for sample_id in ids
    ]
    columns = list(zip_longest(*rows, fillvalue=np.nan))
    by_answer = np.array(columns, dtype=np.float64)
    return _oriented(by_answer.T, rule)


def _oriented(scores: Floats, rule: Rule) -> Floats:
    """`scores` on a scale on which more is better."""
    if rule.lower_is_better:
        return 1.0 - scores
    return scores
