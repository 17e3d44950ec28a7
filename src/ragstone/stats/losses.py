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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.score_model import SampledMeans, ScoreModel, drawn_choices, learn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one metric on n questions, where more is better."""

    units: Ints
    """(n,): indices of the questions, shared by all changes."""
    now: Floats
    """(n, k): their scores now, NaN where there is none."""
    then: Floats
    """(n, l): their scores before, NaN where there is none."""
    alike: Bools
    """(n,): the answers now are one answer that was given several times."""
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
    def values(self) -> Floats:
        """(n,): the mean now minus the mean then, of each question; 0 if they are equal
        but for rounding."""
        return np.round(row_means(self.now) - row_means(self.then), 9)


@dataclass(frozen=True, slots=True)
class LossTest:
    """The result of a test of several changes for losses."""

    p_values: Floats
    """(m,): those of "no loss" for each change, adjusted over all."""
    mean_p_value: float
    """That of the mean over the whole changes."""


def row_means(values: Floats) -> Floats:
    """The means (n,) of the rows of `values` (n, k), without missing values; NaN for a
    row without any."""
    if values.shape[1] == 1:
        return values[:, 0]
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            np.where(present, values, 0.0).sum(axis=1) / present.sum(axis=1)
        )


def loss_test(
    changes: Sequence[Change], *, groups: Ints | None = None, seed: int = 0
) -> LossTest:
    """Test each of `changes`, and the mean of those that are not parts, for a loss.

    `groups` labels the units (by index): related questions, which change together and
    count as one.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    wholes = [change for change in changes if not change.part]
    parts = len(changes) - len(wholes)
    share_of_parts = 0.0
    if parts:
        share_of_parts = PARTS_SHARE if wholes else 1.0
    tests = 1.0
    if wholes:
        tests = _number_of_tests(wholes) / (1.0 - share_of_parts)
    p_values = np.ones(len(changes))
    questions: dict[int, Questions] = {}
    wholes_first = sorted(range(len(changes)), key=lambda place: changes[place].part)
    for place in wholes_first:
        change = changes[place]
        if not change.part:
            questions[id(change)] = Questions(change, groups)
            p_values[place] = tests * questions[id(change)].p_value(rng)
            continue
        whole = None
        if change.whole is not None:
            whole = questions.setdefault(
                id(change.whole), Questions(change.whole, groups)
            )
        part = Questions(change, groups, whole)
        p = part.p_value(rng, min_errors=_CLEARLY_NONE_OF_PARTS)
        p_values[place] = p * parts / share_of_parts
    mean_p_value = 1.0
    if len(wholes) > 1:
        mean = Questions(mean_change(wholes), groups)
        mean_p_value = min(1.0, max(1.0, tests / MEAN_WEIGHT) * mean.p_value(rng))
    return LossTest(np.minimum(1.0, p_values), mean_p_value)


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
    eigenvalues = np.clip(
        np.linalg.eigvalsh(squares / np.outer(scale, scale)), 0.0, None
    )
    independent = float(
        np.sum((eigenvalues >= 1.0) + eigenvalues - np.floor(eigenvalues))
    )
    return float(
        1.0
        + (min(metrics, independent) - 1.0)
        * (metrics - 1.0 + MEAN_WEIGHT)
        / (metrics - 1.0)
    )


def loss_p_value(
    change: Change,
    *,
    groups: Ints | None = None,
    seed: int = 0,
    min_errors: float = CLEARLY_NONE,
) -> float:
    """The p-value of "no loss" of one change by itself; 1 for a fall of fewer standard
    errors than `min_errors`."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return Questions(change, groups).p_value(rng, min_errors=min_errors)


def mean_change(changes: Sequence[Change]) -> Change:
    """The change of the mean over several metrics; of each question those count that it
    has in all its answers."""
    units = np.unique(np.concatenate([change.units for change in changes]))
    now = _mean_scores(units, [(change.units, change.now) for change in changes])
    then = _mean_scores(units, [(change.units, change.then) for change in changes])
    has_now = np.isfinite(now).any(axis=1)
    has_then = np.isfinite(then).any(axis=1)
    scored = np.logical_and(has_now, has_then)
    expected = float(np.mean([change.expected for change in changes]))
    alike = np.zeros(int(scored.sum()), np.bool_)
    return Change(units[scored], now[scored], then[scored], alike, expected)


def _mean_scores(units: Ints, tables: Sequence[tuple[Ints, Floats]]) -> Floats:
    """The mean scores (units, columns) over the metrics; NaN where a metric of the
    question has none.

    `tables` has the units of each metric, and their scores.
    """
    columns = max(table.shape[1] for _, table in tables)
    total = np.zeros((len(units), columns))
    metrics = np.zeros((len(units), 1))
    for units_of_metric, table in tables:
        rows = np.searchsorted(units, units_of_metric)
        missing = np.full((len(table), columns - table.shape[1]), np.nan)
        total[rows] += np.concatenate([missing, table], axis=1)
        metrics[rows] += 1.0
    return np.asarray(total / metrics)


class Questions:
    """The questions of a change, of which related ones are one row: its scores are
    their means.

    `whole` are all questions of the metric, if these are some of them.
    """

    def __init__(
        self, change: Change, groups: Ints | None, whole: Questions | None = None
    ) -> None:
        self.labels, rows, sizes = _rows(change.units, groups)
        self.sizes = sizes.astype(np.float64)
        self.then = _by_row(change.then, rows, len(sizes))
        self.now = _by_row(change.now, rows, len(sizes))
        falls = change.expected - (row_means(change.now) - row_means(change.then))
        self.falls: Floats = np.bincount(
            rows, weights=falls, minlength=len(sizes)
        ).astype(np.float64)
        self.whole = whole
        self.apart = change.apart
        self._pooled = change.pooled or self.then.shape[1] < MIN_RUNS
        self._model: ScoreModel | None = None

    @property
    def model(self) -> ScoreModel:
        """What these questions score while nothing changes."""
        if self._model is None:
            scores = self.then
            if self._pooled:
                scores = np.concatenate([self.then, self.now], axis=1)
            self._model = learn(scores)
        return self._model

    def p_value(
        self, rng: np.random.Generator, *, min_errors: float = CLEARLY_NONE
    ) -> float:
        """How often an unchanged or reshuffled system falls as far by chance.

        1 for a fall of fewer standard errors than `min_errors`.
        """
        if float(self.falls.sum()) <= 0.0:
            return 1.0
        whole = self if self.whole is None else self.whole
        rows = np.searchsorted(whole.labels, self.labels)
        weights = whole.model.weights[rows]
        before = np.isfinite(self.then).sum(axis=1)
        after = np.isfinite(self.now).sum(axis=1)
        max_before = int(before.max())
        max_after = int(after.max())
        noise = replace(whole.model, weights=weights).variance_of_change(
            max_before, max_after, apart=self.apart
        )
        if (
            standardised(self.falls[None, :], float(noise @ self.sizes**2))[0]
            < min_errors
        ):
            return 1.0
        means = SampledMeans.draw(whole.model, max_before, max_after, rng)
        if self.apart:
            means = replace(means, after=means.anew)
        draws = Draws(weights, whole.model.weights, means, rng)
        unchanged, *reshuffled = [
            falls * self.sizes for falls in draws.falls(before - 1, after - 1)
        ]
        chance = _chance(self.falls, unchanged, reshuffled)
        small_chance = _chance(
            _small(self.falls),
            _small(unchanged),
            [_small(falls) for falls in reshuffled],
        )
        return min(1.0, chance / (1.0 - SMALL_SHARE), small_chance / SMALL_SHARE)


def _small(falls: Floats) -> Floats:
    """`falls`, of which none counts more than SMALL."""
    return np.clip(falls, -SMALL, SMALL)


def _chance(falls: Floats, unchanged: Floats, reshuffled: Sequence[Floats]) -> float:
    """How often draws of unchanged or reshuffled systems (draws, n) fall as far as
    `falls` (n,)."""
    variance = float(unchanged.var(axis=0).sum())
    observed = float(standardised(falls[None, :], variance)[0])
    return max(
        _tail(standardised(draws, variance), observed)
        for draws in (unchanged, *reshuffled)
    )


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
        self.components = _draw_components(weights, count, rng)
        self.series = rng.integers(0, means.before.shape[1], (count, n))
        of_all = (
            self.components
            if metric_weights is weights
            else _draw_components(metric_weights, count, rng)
        )
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
        return [
            falls,
            *(np.where(self._uniform < share, anew, falls) for share in RESHUFFLED),
        ]


def _draw_components(weights: Floats, draws: int, rng: np.random.Generator) -> Ints:
    """(draws, n): a distribution for each row, by its weights."""
    return np.ascontiguousarray(drawn_choices(weights, draws, rng).T)


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


def _tail(drawn: Floats, observed: float) -> float:
    """The share of `drawn` that is at least `observed`; beyond nearly all of them, by
    an exponential tail."""
    start, scale, share = _tail_of(drawn)
    if observed <= start:
        return float(np.mean(drawn >= observed - 1e-9))
    return float(share * np.exp(-(observed - start) / scale))


def critical_value(drawn: Floats, p_value: float) -> float:
    """The value that a share `p_value` of `drawn` exceeds; the inverse of the tail."""
    start, scale, share = _tail_of(drawn)
    if p_value >= share:
        return float(np.quantile(drawn, 1.0 - min(1.0, p_value)))
    return start + scale * float(np.log(share / p_value))


def _tail_of(drawn: Floats) -> tuple[float, float, float]:
    """Where the tail of `drawn` begins, its scale, and its share of the draws."""
    count = max(10, int(_TAIL * len(drawn)))
    largest = np.partition(drawn, -count)[-count:]
    start = float(largest.min())
    return start, float((largest - start).mean()) + 1e-9, count / len(drawn)


def scores_by_row(scores: Floats, units: Ints, groups: Ints | None) -> Floats:
    """(rows, k): `scores` (n, k) of questions, those of related ones as their mean."""
    _, rows, sizes = _rows(units, groups)
    return _by_row(scores, rows, len(sizes))


def _rows(units: Ints, groups: Ints | None) -> tuple[Ints, Ints, Ints]:
    """The labels of the rows, the row of each question (n,), and the questions of each
    row."""
    labels = (units if groups is None else groups[units]) % _MAX_ROWS
    return np.unique(labels, return_inverse=True, return_counts=True)


def _by_row(scores: Floats, rows: Ints, count: int) -> Floats:
    """(count, k): the means of `scores` (n, k) over the questions of each row."""
    present = np.isfinite(scores)
    sums = np.zeros((count, scores.shape[1]))
    numbers = np.zeros((count, scores.shape[1]))
    np.add.at(sums, rows, np.where(present, scores, 0.0))
    np.add.at(numbers, rows, present.astype(np.float64))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / numbers)
