"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import Pairing
from ragstone.gate.grouping import group_labels
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Interval
from ragstone.stats.arrays import Floats
from ragstone.stats.estimate import Estimate
from ragstone.stats.losses import Change, row_means

ROUNDING = 1e-9


class Floor(Struct, frozen=True):
    """A floor to decide. Where less is better, all numbers are those of 1 − score."""

    rule: Rule
    samples: tuple[str, ...]
    """The ids of the samples that count here, sorted."""
    values: Floats
    """(n,): their scores."""
    bound: float

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
    change: Change
    """Their scores in both runs."""

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
    """The mean over the questions of `scores` (n, k)."""
    return float(row_means(scores).mean())


def reported_interval(limits: Estimate, shown: Callable[[float], float]) -> Interval:
    """An interval of scores as it is reported, also where less is better."""
    ends = [shown(limits.low), shown(limits.high)]
    low, high = sorted(ends)
    return Interval(low, high, limits.confidence, limits.method)


def floors_of(run: RunScores, rules: Sequence[Rule]) -> Iterator[Floor]:
    """Every floor in the rules that has at least one score."""
    ids = sorted(run.samples)
    for rule in rules:
        values = run.scores_of(rule.metric).values
        samples = rule.covered(sample_id for sample_id in ids if sample_id in values)
        if rule.min is not None and samples:
            scores = [values[sample_id] for sample_id in samples]
            oriented = _oriented(np.array(scores), rule)
            yield Floor(rule, samples, oriented, rule.min)


def drops_of(pairing: Pairing, rules: Sequence[Rule]) -> Iterator[Drop]:
    """Every drop in the rules that has at least one pair."""
    ids = sorted(pairing.current.samples)
    groups = group_labels(pairing.current, ids)
    place_of = {sample_id: place for place, sample_id in enumerate(ids)}
    for rule in rules:
        samples = rule.covered(pairing.changes(rule.metric))
        if rule.max_drop is None or not samples:
            continue
        bound = 0.0 - rule.max_drop  # so that no drop is 0.0, not -0.0
        # An accepted drop is fully allowed: more than that fails, and up to there
        # nothing is inconclusive.
        expected = 0.0 if rule.accepted is None else bound
        now = answer_table(rule, samples, pairing.current)
        then = answer_table(rule, samples, pairing.baseline)
        if then.shape[1] > 1:
            # Runs of the history, whose scores are rounded: equal ones must stay equal.
            now = np.rint(now * STEPS) / STEPS
            then = np.rint(then * STEPS) / STEPS
        places = [place_of[sample_id] for sample_id in samples]
        units = np.array(places)
        change = Change(units, after=now, before=then, groups=groups, expected=expected)
        yield Drop(rule, samples, bound, change)


def changes_of(drops: Sequence[Drop]) -> list[Change]:
    """The scores behind drops, those of slices with what they are a part of."""
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
    """How often the system was asked each question; 1 for a plain score file."""
    if run.manifest is None:
        return 1
    return run.manifest.answers


def answer_table(rule: Rule, ids: tuple[str, ...], run: RunScores) -> Floats:
    """The scores (n, k) of each answer to each question, filled up with NaN to the
    largest number of answers.

    They are 1 − score where less is better.
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
    if rule.lower_is_better:
        return 1.0 - scores
    return scores
