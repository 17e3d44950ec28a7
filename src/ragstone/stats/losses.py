"""Decides which of several means fell, on these questions.

How far the mean falls by chance is learnt, not assumed: a model of each question's
scores (stats/score_model.py) says what it would score if nothing had changed, and the
fall of the mean is compared with what that model gives when it is drawn many times (a
parametric bootstrap: B. Efron and R. Tibshirani, "An Introduction to the Bootstrap",
1993, chapter 16). The model is learnt from the runs before if there are enough, else
from all scores, old and new, as if nothing had changed.

A change that makes some questions better and others worse is no loss. So the fall is
divided by the larger of two standard errors: that of the noise, and that of the
questions that got better, since a change that is as likely to help as to harm moves the
mean by as much the other way. And it is compared with systems of which a part of the
questions was given the distribution of another question.

Beside the metrics, their mean is looked at, with twice the weight of one of them: most
losses show in several. `bench/losses.py` measures all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.score_model import (
    UNEXPECTED_NOW,
    SampledMeans,
    ScoreModel,
    drawn_choices,
    learn,
)

MEAN_WEIGHT = 2.0
"""Weight of the mean over the metrics, relative to one of them."""
PARTS_SHARE = 1.0 / 7.0
"""The share of the error rate that goes to the parts, if there are any: all together
weigh as much as one of four metrics and their mean."""
MIN_RUNS = 4
"""Of fewer runs before, difficulty and noise can't be told apart: the new scores are
learnt from too."""
RESHUFFLED = (0.2, 0.5)
"""The shares of the questions that are given another distribution."""
SMALL = 0.1
"""What a question falls by counts up to here in a second look, for small losses that
many questions share."""
SMALL_SHARE = 0.2
"""The share of the error rate of the second look."""

_DRAWS = 1500
_MIN_DRAWS = 200
_MAX_ROWS = 5000
"""More questions are decided in so many groups."""
_MAX_DRAWN = 8_000_000
"""Of many questions, fewer draws: their sum is close to normal."""
_TAIL = 0.02
"""The share of the draws from which the tail beyond them is continued."""
CLEARLY_NONE = 1.0
"""A fall of fewer standard errors than this is not drawn: its p-value would be above a
tenth."""
_CLEARLY_NONE_OF_PARTS = 2.5
"""Of a part, which is one of many, anything below this could never be shown."""


class Change(Struct, frozen=True):
    """The change of one metric on n questions, where more is better."""

    units: Ints
    """(n,): indices of the questions, shared by all changes."""
    now: Floats
    """(n, k): their scores now, NaN where there is none."""
    then: Floats
    """(n, l): their scores before, NaN where there is none."""
    groups: Ints | None = None
    """Labels of all units, by index: related questions change together and count as
    one."""
    expected: float = 0.0
    """The change that counts as none, at most 0."""
    part: bool = False
    """These are some of the questions."""
    whole: Change | None = None
    """The change of all questions that have the metric, if these are some of them and
    it is known."""
    apart: bool = False
    """Many runs lie between then and now, so that no answer of one is an answer of the
    other."""
    pooled: bool = False
    """The new scores are learnt from too, however many runs there are before."""

    @property
    def labels(self) -> Ints:
        """(n,): equal for related questions."""
        if self.groups is None:
            return self.units
        return self.groups[self.units]

    @property
    def values(self) -> Floats:
        """(n,): the mean now minus the mean then, of each question; 0 if they are equal
        but for rounding."""
        return np.round(row_means(self.now) - row_means(self.then), 9)


def row_means(values: Floats) -> Floats:
    """The means (n,) of the rows of `values` (n, k), without missing values; NaN for a
    row without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=1) / np.isfinite(values).sum(axis=1))


def loss_test(changes: Sequence[Change], *, seed: int = 0) -> tuple[Floats, float]:
    """Test each of `changes`, and the mean of those that are not parts, for a loss.

    Returns the p-values (m,) of "no loss" for each change, adjusted over all, and that
    of the mean.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    wholes = [change for change in changes if not change.part]
    parts = [change for change in changes if change.part]
    share_of_parts = 1.0
    questions: dict[int, Questions] = {}
    p_values: dict[int, float] = {}
    mean_p_value = 1.0
    if wholes:
        share_of_parts = PARTS_SHARE if parts else 0.0
        tests = _number_of_tests(wholes) / (1.0 - share_of_parts)
        for change in wholes:
            questions[id(change)] = Questions(change)
            p_values[id(change)] = tests * questions[id(change)].p_value(rng)
    for change in parts:
        part = Questions(change)
        if change.whole is not None:
            part.whole = questions.setdefault(id(change.whole), Questions(change.whole))
        p = part.p_value(rng, min_errors=_CLEARLY_NONE_OF_PARTS)
        p_values[id(change)] = p * len(parts) / share_of_parts
    if len(wholes) > 1:
        mean = Questions(mean_change(wholes))
        mean_p_value = max(1.0, tests / MEAN_WEIGHT) * mean.p_value(rng)
    adjusted = np.array([p_values[id(change)] for change in changes])
    return np.minimum(1.0, adjusted), min(1.0, mean_p_value)


def _number_of_tests(changes: Sequence[Change]) -> float:
    """As how many independent tests those of several metrics and their mean count.

    Metrics that change together are not several chances of an error: the effective
    number of metrics comes from the eigenvalues of their correlation (J. Li and L. Ji,
    Heredity 95, 2005). A metric that did not change is none.
    """
    units = np.unique(np.concatenate([change.units for change in changes]))
    table = np.zeros((len(units), len(changes)))
    for place, change in enumerate(changes):
        table[np.searchsorted(units, change.units), place] = change.values
    changed = table[:, table.any(axis=0)]
    metrics = changed.shape[1]
    if metrics < 2:
        return 1.0
    squares = changed.T @ changed
    scale = np.sqrt(np.diag(squares))
    eigenvalues = np.linalg.eigvalsh(squares / np.outer(scale, scale)).clip(min=0.0)
    whole = np.where(eigenvalues >= 1.0, 1.0, 0.0)
    independent = np.sum(whole + eigenvalues - np.floor(eigenvalues))
    weight_of_others = (metrics - 1.0 + MEAN_WEIGHT) / (metrics - 1.0)
    return float(1.0 + (min(metrics, independent) - 1.0) * weight_of_others)


def loss_p_value(change: Change, *, min_errors: float = CLEARLY_NONE) -> float:
    """The p-value of "no loss" of one change by itself; 1 for a fall of fewer standard
    errors than `min_errors`."""
    rng = np.random.Generator(np.random.PCG64(0))
    return Questions(change).p_value(rng, min_errors=min_errors)


def mean_change(changes: Sequence[Change]) -> Change:
    """The change of the mean over several metrics; of each question those count that it
    has in all its answers."""
    units = np.unique(np.concatenate([change.units for change in changes]))
    sides = []
    for tables in (
        [change.now for change in changes],
        [change.then for change in changes],
    ):
        columns = max(table.shape[1] for table in tables)
        total = np.zeros((len(units), columns))
        metrics = np.zeros((len(units), 1))
        for change, table in zip(changes, tables, strict=True):
            rows = np.searchsorted(units, change.units)
            total[rows, columns - table.shape[1] :] += table
            total[rows, : columns - table.shape[1]] = np.nan
            metrics[rows] += 1.0
        sides.append(total / metrics)
    now, then = sides
    scored = np.isfinite(now).any(axis=1) & np.isfinite(then).any(axis=1)
    return Change(
        units[scored],
        now[scored],
        then[scored],
        changes[0].groups,
        float(np.mean([change.expected for change in changes])),
    )


class Questions:
    """The questions of a change, of which related ones are one row: its scores are
    their means."""

    def __init__(self, change: Change) -> None:
        labels = change.labels
        self.labels, rows, sizes = np.unique(
            labels % _MAX_ROWS, return_inverse=True, return_counts=True
        )
        self.sizes: Ints = sizes
        self.then = scores_by_row(change.then, labels)
        self.now = scores_by_row(change.now, labels)
        falls = change.expected - (row_means(change.now) - row_means(change.then))
        self.falls: Floats = np.bincount(rows, falls, len(sizes)).astype(np.float64)
        self.whole = self
        """All questions of the metric, if these are some of them."""
        self.apart = change.apart
        self._pooled = change.pooled or change.then.shape[1] < MIN_RUNS

    @cached_property
    def model(self) -> ScoreModel:
        """What these questions score while nothing changes."""
        if self._pooled:
            return learn(np.concatenate([self.then, self.now], axis=1))
        return learn(self.then, unexpected_answers=UNEXPECTED_NOW)

    def p_value(
        self, rng: np.random.Generator, *, min_errors: float = CLEARLY_NONE
    ) -> float:
        """How often an unchanged or reshuffled system falls as far by chance.

        1 for a fall of fewer standard errors than `min_errors`.
        """
        if self.falls.sum() <= 0.0:
            return 1.0
        model = self.whole.model
        weights = model.weights[np.searchsorted(self.whole.labels, self.labels)]
        before = np.isfinite(self.then).sum(axis=1)
        after = np.isfinite(self.now).sum(axis=1)
        most = int(before.max()), int(after.max())
        noise = replace(model, weights=weights).variance_of_change(
            *most, apart=self.apart
        )
        errors = standardised(self.falls[None, :], float(noise @ self.sizes**2))
        if errors[0] < min_errors:
            return 1.0
        means = SampledMeans.draw(model, *most, rng)
        if self.apart:
            means = replace(means, after=means.anew)
        draws = Draws(weights, model.weights, means, rng)
        drawn = [falls * self.sizes for falls in draws.falls(before - 1, after - 1)]
        small_drawn = [np.clip(falls, -SMALL, SMALL) for falls in drawn]
        chance = _chance(self.falls, drawn)
        small_chance = _chance(np.clip(self.falls, -SMALL, SMALL), small_drawn)
        return min(1.0, chance / (1.0 - SMALL_SHARE), small_chance / SMALL_SHARE)


def _chance(falls: Floats, drawn: Sequence[Floats]) -> float:
    """How often systems fall as far as `falls` (n,), of which `drawn` (draws, n) has
    unchanged ones first, and then reshuffled ones."""
    variance = float(drawn[0].var(axis=0).sum())
    observed = float(standardised(falls[None, :], variance)[0])
    chances = []
    for draws in drawn:
        errors = standardised(draws, variance)
        start, scale, share = _tail_of(errors)
        if observed <= start:
            chances.append(float(np.mean(errors >= observed - 1e-9)))
        else:
            chances.append(share * float(np.exp(-(observed - start) / scale)))
    return max(chances)


class Draws:
    """Draws of n rows that did not change; all falls are of the same draws.

    `weights` (n, components) are theirs, `metric_weights` those of all rows of the
    metric.
    """

    def __init__(
        self,
        weights: Floats,
        metric_weights: Floats,
        means: SampledMeans,
        rng: np.random.Generator,
        *,
        draws: int = _DRAWS,
    ) -> None:
        n = len(weights)
        count = int(np.clip(_MAX_DRAWN // (4 * n), _MIN_DRAWS, draws))
        self._means = means
        self.components = drawn_choices(weights, count, rng).T
        """(draws, n): a distribution for each row, by its weights."""
        self.series = rng.integers(0, means.before.shape[1], (count, n))
        of_all = self.components
        if metric_weights is not weights:
            of_all = drawn_choices(metric_weights, count, rng).T
        self._other_components = rng.choice(of_all.ravel(), (count, n))
        self._uniform = rng.random((count, n))

    def falls(self, before: Ints, after: Ints) -> list[Floats]:
        """Falls (draws, n) where nothing changed, and where RESHUFFLED shares of the
        rows have another's distribution.

        `before` and `after` (n,) are the numbers of scores less one.
        """
        then = self._means.before[self.components, self.series, before]
        falls = then - self._means.after[self.components, self.series, after]
        anew = then - self._means.anew[self._other_components, self.series, after]
        reshuffled = [
            np.where(self._uniform < share, anew, falls) for share in RESHUFFLED
        ]
        return [falls, *reshuffled]


def standardised(falls: Floats, variance: float) -> Floats:
    """(draws,): the sums of `falls` (draws, n), each divided by its standard error."""
    gains = np.minimum(falls, 0.0)
    return standard_scores(
        falls.sum(axis=1), np.einsum("ij,ij->i", gains, gains), variance
    )


def standard_scores(sums: Floats, squared_gains: Floats, variance: float) -> Floats:
    """`sums` of falls divided by the larger of two standard errors: of noise, and of
    the questions that got better."""
    return np.asarray(sums / np.sqrt(np.maximum(variance, 2.0 * squared_gains) + 1e-12))


def critical_value(drawn: Floats, p_value: float) -> float:
    """The value that a share `p_value` of `drawn` exceeds."""
    start, scale, share = _tail_of(drawn)
    if p_value >= share:
        return float(np.quantile(drawn, 1.0 - p_value))
    return start + scale * float(np.log(share / p_value))


def _tail_of(drawn: Floats) -> tuple[float, float, float]:
    """Where the exponential tail begins that stands for `drawn` beyond nearly all of
    them, its scale, and its share of the draws."""
    count = max(10, int(_TAIL * len(drawn)))
    largest = np.partition(drawn, -count)[-count:]
    start = float(largest.min())
    return start, float((largest - start).mean()) + 1e-9, count / len(drawn)


def scores_by_row(scores: Floats, labels: Ints) -> Floats:
    """(rows, k): `scores` (n, k) of questions, those with equal labels as their
    mean."""
    _, rows = np.unique(labels % _MAX_ROWS, return_inverse=True)
    sums = np.zeros((rows.max(initial=-1) + 1, scores.shape[1]))
    numbers = np.zeros_like(sums)
    np.add.at(sums, rows, np.nan_to_num(scores))
    np.add.at(numbers, rows, np.isfinite(scores))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / numbers)
