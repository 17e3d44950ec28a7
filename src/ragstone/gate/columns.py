"""Scores as arrays: each metric is looked up once, however many slices use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.comparability import Pairing
from ragstone.run.scores import RunScores
from ragstone.stats.signflip import Answers

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Column:
    """One metric: `units` (n,) are positions in `Columns.ids`, `now` (n,) the scores, `then` (n,) the baseline's.

    `answers` are the scores behind them, if the runs have different numbers of answers.
    """

    units: NDArray[np.int64]
    now: NDArray[np.float64]
    then: NDArray[np.float64]
    answers: Answers | None = None

    def cut(self, members: NDArray[np.bool_]) -> Column:
        """The rows with a sample in `members`, a mask over all samples."""
        kept = members[self.units]
        answers = None if self.answers is None else self.answers.cut(kept)
        return Column(self.units[kept], self.now[kept], self.then[kept], answers)


class Columns:
    """The metrics of a run, and of its pairs with a baseline. `ids` are the samples of the run, sorted."""

    def __init__(self, current: RunScores, baseline: RunScores | None, pairing: Pairing | None) -> None:
        self.ids = tuple(sorted(current.samples))
        self._current = current
        self._baseline = baseline
        self._pairing = pairing
        self._position = {sample_id: index for index, sample_id in enumerate(self.ids)}
        self._scores: dict[str, Column] = {}
        self._pairs: dict[str, Column] = {}
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def scores(
        self, metric: str, samples: frozenset[str] | None = None, *, lower_is_better: bool = False
    ) -> Column | None:
        """The scores of `metric` (`then` repeats `now`), only for `samples` if given; None if there are none.

        1 − score where less is better, here and in `pairs`.
        """
        if metric not in self._scores:
            values = self._current.metrics[metric].values if metric in self._current.metrics else _NOTHING
            ids = self.ids if len(values) == len(self.ids) else tuple(i for i in self.ids if i in values)
            now = _oriented([values[i] for i in ids], lower_is_better)
            self._scores[metric] = Column(self._units(ids), now, now)
        return self._cut(self._scores[metric], samples)

    def pairs(
        self, metric: str, samples: frozenset[str] | None = None, *, lower_is_better: bool = False
    ) -> Column | None:
        """The paired scores of `metric`; None if no pair has both."""
        if self._baseline is None or self._pairing is None:
            return None
        if metric not in self._pairs:
            ids = self._pairing.pairs(metric, self._current, self._baseline)
            now = self._current.metrics[metric].values if ids else _NOTHING
            then = self._baseline.metrics[metric].values if ids else _NOTHING
            self._pairs[metric] = Column(
                self._units(ids),
                _oriented([now[i] for i in ids], lower_is_better),
                _oriented([then[i] for i in ids], lower_is_better),
                _answers_of(metric, ids, self._current, self._baseline, lower_is_better) if ids else None,
            )
        return self._cut(self._pairs[metric], samples)

    def _units(self, ids: tuple[str, ...]) -> NDArray[np.int64]:
        if len(ids) == len(self.ids):
            return np.arange(len(ids), dtype=np.int64)
        return np.array([self._position[i] for i in ids], dtype=np.int64)

    def _cut(self, column: Column, samples: frozenset[str] | None) -> Column | None:
        if samples is not None:
            if samples not in self._masks:
                mask = np.zeros(len(self.ids), dtype=np.bool_)
                mask[[self._position[i] for i in samples if i in self._position]] = True
                self._masks[samples] = mask
            column = column.cut(self._masks[samples])
        return column if len(column.units) else None


def _answers_of(
    metric: str, ids: tuple[str, ...], current: RunScores, baseline: RunScores, lower_is_better: bool
) -> Answers | None:
    """The scores behind the differences in `metric`, if the runs have different numbers of answers.

    The difference between a mean of several answers and a single one is not symmetric when nothing has changed.
    """
    if answers_per_sample(current) == answers_per_sample(baseline):
        return None
    alike = [_is_one(metric, i, current) and _is_one(metric, i, baseline) for i in ids]
    now, then = (_oriented(_each(metric, ids, run), lower_is_better) for run in (current, baseline))
    return Answers(now, then, np.array(alike, dtype=np.bool_))


def _each(metric: str, ids: tuple[str, ...], run: RunScores) -> list[list[float]]:
    scores = run.metrics[metric]
    rows = [scores.answers.get(i, (scores.values[i],) * answers_per_sample(run)) for i in ids]
    return [[np.nan if value is None else value for value in row] for row in rows]


def _is_one(metric: str, sample_id: str, run: RunScores) -> bool:
    """Whether there is one answer, one answer given several times, or one score for all of them."""
    return sample_id not in run.metrics[metric].answers or len(set(run.system.answers.get(sample_id, ()))) == 1


def answers_per_sample(run: RunScores) -> int:
    """How often the system was asked each question; 1 for a plain score file."""
    return 1 if run.manifest is None else run.manifest.answers


def _oriented(values: list[float] | list[list[float]], lower_is_better: bool) -> NDArray[np.float64]:
    scores = np.array(values, dtype=np.float64)
    return 1.0 - scores if lower_is_better else scores
