"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import Pairing
from ragstone.gate.grouping import group_labels
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, CheckKind
from ragstone.stats.losses import Change, Floats, Ints, row_means

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """A floor or a drop to decide. Where less is better, all numbers are those of 1 −
    score."""

    rule: Rule
    kind: CheckKind
    """FLOOR or DROP, also of 1 − score."""
    ids: tuple[str, ...]
    """All samples of the run, sorted."""
    units: NDArray[np.int64]
    """(n,): the positions of the samples that count here, among `ids`."""
    values: NDArray[np.float64]
    """(n,): their scores, or changes."""
    bound: float
    current: float
    baseline: float | None = None
    unchanged: float = 0.0
    """The change that counts as no drop at all."""
    change: Change | None = None
    """The scores behind the changes."""

    @property
    def samples(self) -> tuple[str, ...]:
        """The ids of the samples that count here, in the order of `values`."""
        return tuple(self.ids[unit] for unit in self.units)

    @property
    def estimate(self) -> float:
        """The mean of `values`."""
        return float(self.values.mean())

    @property
    def is_beyond(self) -> bool:
        """Whether the estimate is below the bound."""
        return self.estimate < self.bound - ROUNDING

    @property
    def name(self) -> str:
        direction = self.rule.direction
        kind = direction.level if self.kind is CheckKind.FLOOR else direction.change
        return self.rule.name_of(kind)

    @property
    def action(self) -> Action:
        if self.kind is CheckKind.FLOOR:
            return self.rule.floor_action
        return self.rule.drop_action


def questions(
    current: RunScores, pairing: Pairing | None, rules: Sequence[Rule]
) -> Iterator[BoundCheck]:
    """Every floor and drop in the rules that has at least one score (or pair)."""
    ids = tuple(sorted(current.samples))
    groups = group_labels(current, ids)
    place_of = {sample_id: place for place, sample_id in enumerate(ids)}
    for rule in rules:
        values = current.scores_of(rule.metric).values
        scored = rule.covered(sample_id for sample_id in ids if sample_id in values)
        if rule.min is not None and scored:
            units = np.array([place_of[sample_id] for sample_id in scored])
            scores = np.array([values[sample_id] for sample_id in scored])
            scores = _oriented(scores, rule)
            mean = float(scores.mean())
            yield BoundCheck(rule, CheckKind.FLOOR, ids, units, scores, rule.min, mean)
        if rule.max_drop is None or pairing is None:
            continue
        paired = rule.covered(pairing.changes(rule.metric))
        if paired:
            # An accepted drop is fully allowed: more than that fails, and up to there
            # nothing is inconclusive.
            bound = 0.0 - rule.max_drop  # so that no drop is 0.0, not -0.0
            unchanged = 0.0 if rule.accepted is None else bound
            units = np.array([place_of[sample_id] for sample_id in paired])
            change = replace(
                _change(rule, units, paired, pairing),
                groups=groups,
                expected=unchanged,
            )
            yield BoundCheck(
                rule,
                CheckKind.DROP,
                ids,
                units,
                change.values,
                bound,
                float(row_means(change.now).mean()),
                float(row_means(change.then).mean()),
                unchanged=unchanged,
                change=change,
            )


def _change(rule: Rule, units: Ints, ids: tuple[str, ...], pairing: Pairing) -> Change:
    """The scores of the metric of `rule` in both runs."""
    now = answer_table(rule, ids, pairing.current)
    then = answer_table(rule, ids, pairing.baseline)
    if then.shape[1] > 1:
        # Runs of the history, whose scores are rounded: equal ones must stay equal.
        now = np.rint(now * STEPS) / STEPS
        then = np.rint(then * STEPS) / STEPS
    alike = np.zeros(len(ids), dtype=np.bool_)
    if now.shape[1] > 1:
        answers = pairing.current.system.answers
        alike[:] = [len(set(answers.get(sample_id, ()))) == 1 for sample_id in ids]
    return Change(units, now, then, alike)


def changes_of(drops: Sequence[BoundCheck]) -> Iterator[Change]:
    """The scores behind drops, those of slices with what they are a part of."""
    wholes = {
        drop.rule.metric: drop.change for drop in drops if drop.rule.slice is None
    }
    for drop in drops:
        assert drop.change is not None  # noqa: S101 - of a drop
        is_part = drop.rule.slice is not None
        yield replace(
            drop.change,
            part=is_part,
            whole=wholes.get(drop.rule.metric) if is_part else None,
        )


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
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return _oriented(table, rule)


def _oriented(scores: Floats, rule: Rule) -> Floats:
    if rule.lower_is_better:
        return 1.0 - scores
    return scores
