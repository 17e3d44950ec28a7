"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """A floor or a drop to decide.

    `ids` are all samples of the run, sorted; `units` (n,) the positions of the samples that count here; `values` (n,)
    their scores or changes. Where less is better, all numbers are those of 1 − score, and `kind` is the floor or drop
    of that. `unchanged` is the change that counts as no drop at all. `change` has the scores behind the changes.
    """

    rule: Rule
    kind: CheckKind
    ids: tuple[str, ...]
    units: NDArray[np.int64]
    values: NDArray[np.float64]
    bound: float
    current: float
    baseline: float | None = None
    unchanged: float = 0.0
    change: Change | None = None

    @property
    def samples(self) -> tuple[str, ...]:
        """The ids of the samples that count here, in the order of `values`."""
        return tuple(self.ids[unit] for unit in self.units)

    @property
    def name(self) -> str:
        direction = self.rule.direction
        return self.rule.name_of(direction.level if self.kind is CheckKind.FLOOR else direction.change)

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


def questions(current: RunScores, pairing: Pairing | None, rules: Sequence[Rule]) -> Iterator[BoundCheck]:
    """Every floor and drop in the rules that has at least one score (or pair)."""
    columns = _Columns(current, pairing)
    for rule in rules:
        if rule.min is not None and (scored := columns.scores(rule)) is not None:
            units, scores = scored
            yield BoundCheck(rule, CheckKind.FLOOR, columns.ids, units, scores, rule.min, float(scores.mean()))
        if rule.max_drop is not None and (column := columns.pairs(rule)) is not None:
            # An accepted drop is fully allowed: more than that fails, and up to there nothing is inconclusive.
            unchanged = 0.0 if rule.accepted is None else 0.0 - rule.max_drop
            yield BoundCheck(
                rule,
                CheckKind.DROP,
                columns.ids,
                column.units,
                column.values,
                0.0 - rule.max_drop,  # so that no drop is 0.0, not -0.0
                float(row_means(column.now).mean()),
                float(row_means(column.then).mean()),
                unchanged=unchanged,
                change=replace(column, expected=unchanged),
            )


def changes_of(asked: Sequence[BoundCheck]) -> Iterator[Change]:
    """The scores behind drops, those of slices with what they are a part of."""
    whole = {one.rule.metric: one.change for one in asked if one.rule.slice is None}
    for one in asked:
        assert one.change is not None  # noqa: S101 - of a drop
        part = one.rule.slice is not None
        yield replace(one.change, part=part, whole=whole.get(one.rule.metric) if part else None)


def answers_per_sample(run: RunScores) -> int:
    """How often the system was asked each question; 1 for a plain score file."""
    if run.manifest is None:
        return 1
    return run.manifest.answers


class _Columns:
    """The metrics of a run, and of its pairs with a baseline: each is looked up once, however many slices use it.

    `ids` are the samples of the run, sorted. Scores are 1 − score where less is better.
    """

    def __init__(self, current: RunScores, pairing: Pairing | None) -> None:
        paired = () if pairing is None else pairing.samples
        self.ids = paired if len(paired) == len(current.samples) else tuple(sorted(current.samples))
        self._all = np.arange(len(self.ids), dtype=np.int64)
        self._current = current
        self._pairing = pairing
        self._scores: dict[str, tuple[Ints, Floats]] = {}
        self._pairs: dict[str, Change] = {}
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def scores(self, rule: Rule) -> tuple[Ints, Floats] | None:
        """The units and scores that `rule` is about; None if there are none."""
        if rule.metric not in self._scores:
            values = self._current.metrics[rule.metric].values if rule.metric in self._current.metrics else _NOTHING
            ids = self.ids if len(values) == len(self.ids) else tuple(i for i in self.ids if i in values)
            scores = np.fromiter(map(values.__getitem__, ids), np.float64, len(ids))
            self._scores[rule.metric] = self._units(ids), _oriented(scores, rule)
        units, scores = self._scores[rule.metric]
        if rule.samples is not None:
            kept = self._members(rule.samples)[units]
            units = units[kept]
            scores = scores[kept]
        if len(units):
            return (units, scores)
        return None

    def pairs(self, rule: Rule) -> Change | None:
        """The paired scores that `rule` is about; None if no pair has both."""
        if self._pairing is None:
            return None
        if rule.metric not in self._pairs:
            ids = self._pairing.pairs(rule.metric)
            if not ids:
                return None
            runs = (self._pairing.current, self._pairing.baseline)
            now, then = (answer_table(rule, ids, run) for run in runs)
            if then.shape[1] > 1:  # runs of the history, whose scores are rounded: equal ones must stay equal
                now, then = (np.rint(scores * STEPS) / STEPS for scores in (now, then))
            alike = np.zeros(len(ids), dtype=np.bool_)
            if now.shape[1] > 1:
                given = self._pairing.current.system.answers
                alike[:] = [len(set(given.get(i, ()))) == 1 for i in ids]
            self._pairs[rule.metric] = Change(self._units(ids), now, then, alike)
        found = self._pairs[rule.metric]
        if rule.samples is None:
            return found
        kept = self._members(rule.samples)[found.units]
        if not kept.any():
            return None
        return Change(found.units[kept], found.now[kept], found.then[kept], found.alike[kept])

    def _units(self, ids: tuple[str, ...]) -> NDArray[np.int64]:
        if len(ids) == len(self.ids):
            return self._all
        return np.array([self._position[i] for i in ids], dtype=np.int64)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {sample_id: index for index, sample_id in enumerate(self.ids)}

    def _members(self, samples: frozenset[str]) -> NDArray[np.bool_]:
        """A mask over all samples: those in `samples`."""
        if samples not in self._masks:
            mask = np.zeros(len(self.ids), dtype=np.bool_)
            mask[[self._position[i] for i in samples if i in self._position]] = True
            self._masks[samples] = mask
        return self._masks[samples]


def answer_table(rule: Rule, ids: tuple[str, ...], run: RunScores) -> Floats:
    """The scores (n, k) of each answer to each question, filled up with NaN to the largest number of answers.

    They are 1 − score where less is better.
    """
    scores = run.metrics[rule.metric]
    if not scores.answers:
        return _oriented(np.fromiter(map(scores.values.__getitem__, ids), np.float64, len(ids))[:, None], rule)
    rows = [scores.answers.get(i) or (scores.values[i],) for i in ids]
    most = max(map(len, rows))
    return _oriented(np.array([(*row, *(None,) * (most - len(row))) for row in rows], dtype=np.float64), rule)


def _oriented(scores: Floats, rule: Rule) -> Floats:
    if rule.lower_is_better:
        return 1.0 - scores
    return scores
