"""How worn a golden set is: how often it was seen, and what choosing the best of what was seen is worth by chance.

Of K versions of a system none of which is better than the others, the best one's mean of n samples is too high by
σ/√n times the expected maximum of K standard normal values. σ is how far a version's score of a sample moves around
what such versions score there. It is measured on main: the versions before a merge and after the next one are each one
change away from the version between, so half the squared change over two versions is σ². A run without a changed score
is no version.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.formatting import counted
from ragstone.history.codes import group_codes, sample_codes
from ragstone.history.file import History
from ragstone.history.level import LOOKED_BACK, looks_before, past_of, scores_of
from ragstone.history.lines import LookLine, SamplesLine
from ragstone.history.looks import every_look, summed
from ragstone.stats.best_of import expected_maximum
from ragstone.stats.drift import Series, half_squares

TYPICAL_SD = 0.15
"""σ without enough versions: of scores of three verdicts with a mean of .86, 40 % of them of new answers
(`bench/wear.py`)."""

MIN_VERSIONS = 4
WORTH = 0.005
"""Reports speak of looks from FEW versions on if they are worth so much, or from MANY looks on."""
FEW, MANY = 10, 100


@dataclass(frozen=True, slots=True)
class MetricWear:
    """The wear in one metric with `n` samples: σ (`sd`), from so many `versions` (0: assumed), and what it is worth."""

    metric: str
    n: int
    sd: float
    versions: int
    worth: float


@dataclass(frozen=True, slots=True)
class Wear:
    """The sum of the looks at a golden set, as it is now, and its wear by metric, the worst first."""

    looks: LookLine
    metrics: tuple[MetricWear, ...]

    @property
    def count(self) -> int:
        return round(sum(self.looks.by.values()))

    def sentence(self) -> str | None:
        """What reports say; None if it is not worth a line."""
        versions, worst = round(self.looks.candidates), max(self.metrics, key=lambda one: one.worth, default=None)
        if worst is None or versions < FEW or (worst.worth < WORTH and self.count < MANY):
            return None
        return (
            f"The golden set was seen {counted(self.count, 'time')} since it was last refreshed, with {versions:,} "
            f"versions of the system; choosing the best of these by chance alone is worth about "
            f"{100.0 * worst.worth:.1f} points of {worst.metric}."
        )


def wear_of(histories: Sequence[History], golden: str, samples: SamplesLine, sizes: Mapping[str, int]) -> Wear | None:
    """The wear of the golden set with this hash and these `samples` by the looks in `histories`; None without a look.

    `sizes` are the numbers of samples with a score, by metric; σ is from the first history.
    """
    every = [look for one in histories for look in every_look(one.runs, one.looks)]
    if not every:
        return None
    known = {key: line for one in histories for key, line in one.samples.items()} | {samples.key: samples}
    looks = summed(sorted(every, key=lambda one: one.time), known, golden, samples.key)
    best, found = expected_maximum(looks.candidates), []
    for metric, n in sizes.items():
        sd, versions = _spread(histories[0], metric)
        found.append(MetricWear(metric, n, sd, versions, min(1.0, best * sd / math.sqrt(max(1, n)))))
    return Wear(looks, tuple(sorted(found, key=lambda one: -one.worth)))


def _spread(history: History, metric: str) -> tuple[float, int]:
    """σ of `metric`, and the number of versions that it is measured on."""
    newest = next((line for line in reversed(history.gated) if metric in line.scores), None)
    if newest is None:
        return TYPICAL_SD, 0
    line = history.samples[newest.samples or ""]
    past = past_of(looks_before(history, newest), newest, metric).looks[-LOOKED_BACK:]
    table = scores_of(past, sample_codes(line), metric)
    new = [at for at in range(len(table)) if at == 0 or not np.array_equal(table[at], table[at - 1], equal_nan=True)]
    if len(new) < MIN_VERSIONS:
        return TYPICAL_SD, 0
    groups = group_codes(line)
    labels = None if groups is None else np.unique(groups, return_inverse=True)[1]
    lags, squares = half_squares(Series(table[new], np.arange(len(new)), np.ones(len(new), dtype=np.bool_), labels))
    return math.sqrt(float(squares[lags == 2].mean()) * table.shape[1]), len(new)
