"""Scores as arrays: each metric is looked up once, however many slices use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.comparability import Pairing
from ragstone.run.scores import RunScores

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Column:
    """One metric: `units` (n,) are positions in `Columns.ids`, `now` (n,) the scores, `then` (n,) the baseline's."""

    units: NDArray[np.int64]
    now: NDArray[np.float64]
    then: NDArray[np.float64]

    def cut(self, members: NDArray[np.bool_]) -> Column:
        """The rows with a sample in `members`, a mask over all samples."""
        kept = members[self.units]
        return Column(self.units[kept], self.now[kept], self.then[kept])


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
        """The paired scores of `metric`, from as many answers on both sides; None if no pair has both."""
        if self._baseline is None or self._pairing is None:
            return None
        if metric not in self._pairs:
            ids = self._pairing.pairs(metric, self._current, self._baseline)
            fewest = min(_answers(self._current), _answers(self._baseline))
            now = _first(self._current, metric, fewest) if ids else _NOTHING
            then = _first(self._baseline, metric, fewest) if ids else _NOTHING
            ids = tuple(i for i in ids if i in now and i in then)
            self._pairs[metric] = Column(
                self._units(ids),
                _oriented([now[i] for i in ids], lower_is_better),
                _oriented([then[i] for i in ids], lower_is_better),
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


def _answers(run: RunScores) -> int:
    return 1 if run.manifest is None else run.manifest.answers


def _first(run: RunScores, metric: str, answers: int) -> Mapping[str, float]:
    """The scores of `metric` over the first `answers` answers to each sample.

    A mean of several answers and a single one have different distributions: their difference is not symmetric when
    nothing has changed, and the test would fail far more healthy runs than it should.
    """
    scores = run.metrics[metric]
    if _answers(run) == answers:
        return scores.values
    first = {i: [value for value in each[:answers] if value is not None] for i, each in scores.answers.items()}
    return {i: sum(values) / len(values) for i, values in first.items() if values}


def _oriented(values: list[float], lower_is_better: bool) -> NDArray[np.float64]:
    scores = np.array(values, dtype=np.float64)
    return 1.0 - scores if lower_is_better else scores
