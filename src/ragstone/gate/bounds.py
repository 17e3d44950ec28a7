"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import STEPS, RunScores
from ragstone.gate.comparability import Pairing
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
    def name(self) -> str:
        direction = self.rule.direction
        kind = direction.level if self.kind is CheckKind.FLOOR else direction.change
        return self.rule.name_of(kind)

    @property
    def action(self) -> Action:
        if self.kind is CheckKind.FLOOR:
            return self.rule.floor_action
        return self.rule.drop_action

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of `values`."""
        if self.kind is CheckKind.FLOOR:
            return (0.0, 1.0)
        return (-1.0, 1.0)


def questions(
    current: RunScores, pairing: Pairing | None, rules: Sequence[Rule]
) -> Iterator[BoundCheck]:
    """Every floor and drop in the rules that has at least one score (or pair)."""
    columns = _Columns(current, pairing)
    for rule in rules:
        if rule.min is not None:
            scored = columns.scores(rule)
            if scored is not None:
                units, scores = scored
                yield BoundCheck(
                    rule,
                    CheckKind.FLOOR,
                    columns.ids,
                    units,
                    scores,
                    rule.min,
                    float(scores.mean()),
                )
        if rule.max_drop is not None:
            change = columns.pairs(rule)
            if change is not None:
                yield _drop(rule, rule.max_drop, columns.ids, change)


def _drop(
    rule: Rule, max_drop: float, ids: tuple[str, ...], change: Change
) -> BoundCheck:
    # An accepted drop is fully allowed: more than that fails, and up to there nothing
    # is inconclusive.
    bound = 0.0 - max_drop  # so that no drop is 0.0, not -0.0
    unchanged = 0.0 if rule.accepted is None else bound
    return BoundCheck(
        rule,
        CheckKind.DROP,
        ids,
        change.units,
        change.values,
        bound,
        float(row_means(change.now).mean()),
        float(row_means(change.then).mean()),
        unchanged=unchanged,
        change=replace(change, expected=unchanged),
    )


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


class _Columns:
    """The metrics of a run, and of its pairs with a baseline: each is looked up once,
    however many slices use it.

    `ids` are the samples of the run, sorted. Scores are 1 − score where less is better.
    """

    def __init__(self, current: RunScores, pairing: Pairing | None) -> None:
        paired = () if pairing is None else pairing.samples
        self.ids = (
            paired
            if len(paired) == len(current.samples)
            else tuple(sorted(current.samples))
        )
        self._all = np.arange(len(self.ids), dtype=np.int64)
        self._current = current
        self._pairing = pairing
        self._scores: dict[str, tuple[Ints, Floats]] = {}
        self._pairs: dict[str, Change] = {}
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def scores(self, rule: Rule) -> tuple[Ints, Floats] | None:
        """The units and scores that `rule` is about; None if there are none."""
        if rule.metric not in self._scores:
            values = self._current.scores_of(rule.metric).values
            ids = self.ids
            if len(values) != len(ids):
                ids = tuple(sample_id for sample_id in ids if sample_id in values)
            scores = np.fromiter(map(values.__getitem__, ids), np.float64, len(ids))
            self._scores[rule.metric] = self._units(ids), _oriented(scores, rule)
        units, scores = self._scores[rule.metric]
        if rule.samples is not None:
            is_member = self._members(rule.samples)[units]
            units = units[is_member]
            scores = scores[is_member]
        if not len(units):
            return None
        return units, scores

    def pairs(self, rule: Rule) -> Change | None:
        """The paired scores that `rule` is about; None if no pair has both."""
        if self._pairing is None:
            return None
        if rule.metric not in self._pairs:
            ids = self._pairing.pairs(rule.metric)
            if not ids:
                return None
            self._pairs[rule.metric] = self._change(rule, ids, self._pairing)
        change = self._pairs[rule.metric]
        if rule.samples is None:
            return change
        is_member = self._members(rule.samples)[change.units]
        if not is_member.any():
            return None
        return Change(
            change.units[is_member],
            change.now[is_member],
            change.then[is_member],
            change.alike[is_member],
        )

    def _units(self, ids: tuple[str, ...]) -> NDArray[np.int64]:
        if len(ids) == len(self.ids):
            return self._all
        return np.array(
            [self._position[sample_id] for sample_id in ids], dtype=np.int64
        )

    @cached_property
    def _position(self) -> dict[str, int]:
        return {sample_id: index for index, sample_id in enumerate(self.ids)}

    def _members(self, samples: frozenset[str]) -> NDArray[np.bool_]:
        """A mask over all samples: those in `samples`."""
        if samples not in self._masks:
            mask = np.zeros(len(self.ids), dtype=np.bool_)
            positions = [
                self._position[sample_id]
                for sample_id in samples
                if sample_id in self._position
            ]
            mask[positions] = True
            self._masks[samples] = mask
        return self._masks[samples]

    def _change(self, rule: Rule, ids: tuple[str, ...], pairing: Pairing) -> Change:
        """The scores of the metric of `rule` in both runs."""
        now = answer_table(rule, ids, pairing.current)
        then = answer_table(rule, ids, pairing.baseline)
        if (
            then.shape[1] > 1
        ):  # runs of the history, whose scores are rounded: equal ones must stay equal
            now = np.rint(now * STEPS) / STEPS
            then = np.rint(then * STEPS) / STEPS
        alike = np.zeros(len(ids), dtype=np.bool_)
        if now.shape[1] > 1:
            answers = pairing.current.system.answers
            alike[:] = [len(set(answers.get(sample_id, ()))) == 1 for sample_id in ids]
        return Change(self._units(ids), now, then, alike)


def answer_table(rule: Rule, ids: tuple[str, ...], run: RunScores) -> Floats:
    """The scores (n, k) of each answer to each question, filled up with NaN to the
    largest number of answers.

    They are 1 − score where less is better.
    """
    scores = run.metrics[rule.metric]
    if not scores.answers:
        values = np.fromiter(map(scores.values.__getitem__, ids), np.float64, len(ids))
        return _oriented(values[:, None], rule)
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
