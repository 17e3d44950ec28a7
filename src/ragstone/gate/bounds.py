"""The floors and drops to decide, with their scores as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.comparability import Pairing
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, CheckKind
from ragstone.run.scores import RunScores
from ragstone.stats.signflip import Answers

ROUNDING = 1e-9

FLOOR_WEIGHT = 0.2
"""A floor's weight in the error rate relative to a drop's: if nothing changed, a drop is at its bound, while a floor
usually has slack. Chosen with `bench/gate_error_rates.py`; with floors alone it cancels out."""

LEAN = 0.2
"""A mean below its floor counts as evidence if a system exactly at the floor would score as low in fewer than this
share of runs. Counting every mean below its floor would be too strict: of runs on 20 samples whose true means are 10
points above their floors, up to half have one (`bench/gate_error_rates.py`). All slices together get as much as one
floor.
"""

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """A floor or a drop to decide.

    `ids` are all samples of the run, sorted; `units` (n,) the positions of the samples that count here; `values` (n,)
    their scores or changes. Where less is better, all numbers are those of 1 − score, and `kind` is the floor or drop
    of that. `unchanged` is the change that counts as no drop at all. `answers` are the scores behind the changes if one
    run has more answers to each question than the other.
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
    answers: Answers | None = None

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
        return self.rule.floor_action if self.kind is CheckKind.FLOOR else self.rule.drop_action

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of `values`."""
        return (0.0, 1.0) if self.kind is CheckKind.FLOOR else (-1.0, 1.0)


def questions(current: RunScores, pairing: Pairing | None, rules: Sequence[Rule]) -> Iterator[BoundCheck]:
    """Every floor and drop in the rules that has at least one score (or pair)."""
    columns = _Columns(current, pairing)
    for rule in rules:
        if rule.min is not None and (column := columns.scores(rule)) is not None:
            mean = float(column.now.mean())
            yield BoundCheck(rule, CheckKind.FLOOR, columns.ids, column.units, column.now, rule.min, mean)
        if rule.max_drop is not None and (column := columns.pairs(rule)) is not None:
            yield BoundCheck(
                rule,
                CheckKind.DROP,
                columns.ids,
                column.units,
                column.now - column.then,
                0.0 - rule.max_drop,  # so that no drop is 0.0, not -0.0
                float(column.now.mean()),
                float(column.then.mean()),
                # An accepted drop is fully allowed: more than that fails, and up to there nothing is inconclusive.
                unchanged=0.0 if rule.accepted is None else 0.0 - rule.max_drop,
                answers=column.answers,
            )


def answers_per_sample(run: RunScores) -> int:
    """How often the system was asked each question; 1 for a plain score file."""
    return 1 if run.manifest is None else run.manifest.answers


@dataclass(frozen=True, slots=True)
class _Column:
    """One metric: `units` (n,) are positions in `_Columns.ids`, `now` (n,) the scores, `then` (n,) the baseline's.

    `answers` are the scores behind them, if the runs have different numbers of answers.
    """

    units: NDArray[np.int64]
    now: NDArray[np.float64]
    then: NDArray[np.float64]
    answers: Answers | None = None

    def cut(self, members: NDArray[np.bool_]) -> _Column:
        """The rows with a sample in `members`, a mask over all samples."""
        kept = members[self.units]
        answers = None if self.answers is None else self.answers.cut(kept)
        return _Column(self.units[kept], self.now[kept], self.then[kept], answers)


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
        self._scores: dict[str, _Column] = {}
        self._pairs: dict[str, _Column] = {}
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def scores(self, rule: Rule) -> _Column | None:
        """The scores that `rule` is about (`then` repeats `now`); None if there are none."""
        if rule.metric not in self._scores:
            values = self._current.metrics[rule.metric].values if rule.metric in self._current.metrics else _NOTHING
            ids = self.ids if len(values) == len(self.ids) else tuple(i for i in self.ids if i in values)
            now = _scores(values, ids, rule)
            self._scores[rule.metric] = _Column(self._units(ids), now, now)
        return self._cut(self._scores[rule.metric], rule.samples)

    def pairs(self, rule: Rule) -> _Column | None:
        """The paired scores that `rule` is about; None if no pair has both."""
        if self._pairing is None:
            return None
        if rule.metric not in self._pairs:
            ids = self._pairing.pairs(rule.metric)
            now, then = (
                _scores(run.metrics[rule.metric].values if ids else _NOTHING, ids, rule)
                for run in (self._pairing.current, self._pairing.baseline)
            )
            answers = _answers_of(rule, ids, self._pairing) if ids else None
            self._pairs[rule.metric] = _Column(self._units(ids), now, then, answers)
        return self._cut(self._pairs[rule.metric], rule.samples)

    def _units(self, ids: tuple[str, ...]) -> NDArray[np.int64]:
        if len(ids) == len(self.ids):
            return self._all
        return np.array([self._position[i] for i in ids], dtype=np.int64)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {sample_id: index for index, sample_id in enumerate(self.ids)}

    def _cut(self, column: _Column, samples: frozenset[str] | None) -> _Column | None:
        if samples is not None:
            if samples not in self._masks:
                mask = np.zeros(len(self.ids), dtype=np.bool_)
                mask[[self._position[i] for i in samples if i in self._position]] = True
                self._masks[samples] = mask
            column = column.cut(self._masks[samples])
        return column if len(column.units) else None


def _answers_of(rule: Rule, ids: tuple[str, ...], pairing: Pairing) -> Answers | None:
    """The scores behind the differences in a metric, if the runs have different numbers of answers.

    The difference between a mean of several answers and a single one is not symmetric when nothing has changed.
    """
    runs = (pairing.current, pairing.baseline)
    if answers_per_sample(runs[0]) == answers_per_sample(runs[1]):
        return None
    alike = [all(_is_one(rule.metric, i, run) for run in runs) for i in ids]
    now, then = (_oriented(np.array(_each(rule.metric, ids, run)), rule) for run in runs)
    return Answers(now, then, np.array(alike, dtype=np.bool_))


def _each(metric: str, ids: tuple[str, ...], run: RunScores) -> list[list[float]]:
    scores = run.metrics[metric]
    rows = [scores.answers.get(i, (scores.values[i],) * answers_per_sample(run)) for i in ids]
    return [[np.nan if value is None else value for value in row] for row in rows]


def _is_one(metric: str, sample_id: str, run: RunScores) -> bool:
    """Whether there is one answer, one answer given several times, or one score for all of them."""
    return sample_id not in run.metrics[metric].answers or len(set(run.system.answers.get(sample_id, ()))) == 1


def _scores(values: Mapping[str, float], ids: Sequence[str], rule: Rule) -> NDArray[np.float64]:
    return _oriented(np.fromiter(map(values.__getitem__, ids), np.float64, len(ids)), rule)


def _oriented(scores: NDArray[np.float64], rule: Rule) -> NDArray[np.float64]:
    return 1.0 - scores if rule.lower_is_better else scores
