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
mean by as much the other way. And the fall is also compared with that of reshuffled
systems, in which some of the questions have the distribution of another question.

The mean over the metrics is tested like a metric, with twice the weight: most losses
show in several metrics. `bench/losses.py` measures all of this.
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
"""The share of the error rate that goes to the parts, if there are any: together they
weigh as much as one metric, where there are four metrics and their mean."""
MIN_RUNS = 4
"""With fewer runs before, difficulty and noise can't be told apart, so that the model
is learnt from the new scores too."""
RESHUFFLED_SHARES = (0.2, 0.5)
"""The shares of the questions that have another distribution in reshuffled systems."""
MAX_SMALL_FALL = 0.1
"""Falls of questions are cut at this value in a second test, for small losses that many
questions share."""
SMALL_SHARE = 0.2
"""The share of the error rate that goes to the second test."""

_DRAWS = 1500
_MIN_DRAWS = 200
_MAX_ROWS = 5000
"""Of more rows, those with equal labels modulo this number are merged."""
_MAX_DRAWN_SCORES = 8_000_000
"""Limits memory: with many questions, fewer draws do, since the sum is close to
normal."""
_TAIL_SHARE = 0.02
"""The share of the draws that an exponential tail is fitted to."""
MIN_ERRORS = 1.0
"""A fall of fewer standard errors is not drawn: its p-value would be above 0.1."""
_MIN_ERRORS_OF_PARTS = 2.5
"""MIN_ERRORS for a part of the questions: with fewer standard errors, its p-value is
too large for one of many tests."""


class Change(Struct, frozen=True):
    """The change of one metric on n questions, where more is better."""

    units: Ints
    """(n,): the index of each question, the same in all metrics."""
    after: Floats
    """(n, k): their scores after the change, NaN where there is none."""
    before: Floats
    """(n, l): their scores before the change, NaN where there is none."""
    groups: Ints | None = None
    """The labels of all questions, by index: equal for related questions, which change
    together and count as one. None if no questions are related."""
    expected: float = 0.0
    """The change of the mean that counts as none, at most 0."""
    is_part: bool = False
    """Whether this is a part (a slice) of the questions that have the metric."""
    metric_change: Change | None = None
    """For a part, the change of all questions that have the metric, if it is known."""
    is_apart: bool = False
    """Whether so many runs lie between that no answer is repeated from before to
    after."""
    is_pooled: bool = False
    """Whether the model is learnt from both sides, however many runs there are
    before."""

    @property
    def labels(self) -> Ints:
        """(n,): equal for related questions."""
        if self.groups is None:
            return self.units
        return self.groups[self.units]

    @property
    def values(self) -> Floats:
        """(n,): the mean after minus the mean before, of each question; 0 if they are
        equal but for rounding."""
        return np.round(row_means(self.after) - row_means(self.before), 9)


def row_means(values: Floats) -> Floats:
    """The means (n,) of the rows of `values` (n, k), without missing values; NaN for a
    row without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=1) / np.isfinite(values).sum(axis=1))


def loss_test(changes: Sequence[Change], *, seed: int = 0) -> tuple[Floats, float]:
    """Test each of `changes` for a loss, and the mean of those that are not parts.

    Returns the p-values (m,) of "no loss" for each change, adjusted for the number of
    tests, and that of the mean.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    metric_changes = [change for change in changes if not change.is_part]
    parts = [change for change in changes if change.is_part]
    share_of_parts = 1.0
    questions: dict[int, Questions] = {}  # by the id() of the change
    p_values: dict[int, float] = {}
    mean_p_value = 1.0
    if metric_changes:
        share_of_parts = PARTS_SHARE if parts else 0.0
        tests = _number_of_tests(metric_changes) / (1.0 - share_of_parts)
        for change in metric_changes:
            questions[id(change)] = Questions(change)
            p_values[id(change)] = tests * questions[id(change)].p_value(rng)
    for change in parts:
        part = Questions(change)
        if change.metric_change is not None:
            part.metric_questions = questions.setdefault(
                id(change.metric_change), Questions(change.metric_change)
            )
        p_value = part.p_value(rng, min_errors=_MIN_ERRORS_OF_PARTS)
        p_values[id(change)] = p_value * len(parts) / share_of_parts
    if len(metric_changes) > 1:
        mean = Questions(mean_change(metric_changes))
        mean_p_value = max(1.0, tests / MEAN_WEIGHT) * mean.p_value(rng)
    adjusted = np.array([p_values[id(change)] for change in changes])
    return np.minimum(1.0, adjusted), min(1.0, mean_p_value)


def _number_of_tests(changes: Sequence[Change]) -> float:
    """The number of independent tests that the tests of several metrics and their mean
    count as.

    Metrics that change together are not several chances of an error: the effective
    number of metrics comes from the eigenvalues of their correlation (J. Li and L. Ji,
    Heredity 95, 2005). A metric that did not change doesn't count.
    """
    units = np.unique(np.concatenate([change.units for change in changes]))
    table = np.zeros((len(units), len(changes)))
    for column, change in enumerate(changes):
        table[np.searchsorted(units, change.units), column] = change.values
    changed = table[:, table.any(axis=0)]
    metric_count = changed.shape[1]
    if metric_count < 2:
        return 1.0
    products = changed.T @ changed
    norms = np.sqrt(np.diag(products))
    correlation = products / np.outer(norms, norms)
    eigenvalues = np.linalg.eigvalsh(correlation).clip(min=0.0)
    # Each eigenvalue counts 1 if it is at least 1, and its fraction.
    at_least_one = eigenvalues >= 1.0
    independent = np.sum(at_least_one + eigenvalues - np.floor(eigenvalues))
    # The mean adds its weight, in proportion to how independent the metrics are.
    weight_of_others = (metric_count - 1.0 + MEAN_WEIGHT) / (metric_count - 1.0)
    return float(1.0 + (min(metric_count, independent) - 1.0) * weight_of_others)


def loss_p_value(change: Change, *, min_errors: float = MIN_ERRORS) -> float:
    """The p-value of "no loss" of one change by itself; 1 for a fall of fewer standard
    errors than `min_errors`."""
    rng = np.random.Generator(np.random.PCG64(0))
    return Questions(change).p_value(rng, min_errors=min_errors)


def mean_change(changes: Sequence[Change]) -> Change:
    """The change of the mean over several metrics.

    The score of a question is the mean over the metrics that it has; in a run that
    lacks one of these metrics, it has none.
    """
    units = np.unique(np.concatenate([change.units for change in changes]))
    sides = []
    for tables in (
        [change.after for change in changes],
        [change.before for change in changes],
    ):
        columns = max(table.shape[1] for table in tables)
        total = np.zeros((len(units), columns))
        metric_counts = np.zeros((len(units), 1))
        for change, table in zip(changes, tables, strict=True):
            rows = np.searchsorted(units, change.units)
            # The newest runs are the last columns.
            total[rows, columns - table.shape[1] :] += table
            total[rows, : columns - table.shape[1]] = np.nan
            metric_counts[rows] += 1.0
        sides.append(total / metric_counts)
    after, before = sides
    is_scored = np.isfinite(after).any(axis=1) & np.isfinite(before).any(axis=1)
    return Change(
        units[is_scored],
        after=after[is_scored],
        before=before[is_scored],
        groups=changes[0].groups,
        expected=float(np.mean([change.expected for change in changes])),
    )


class Questions:
    """The questions of a change as rows: related questions are one row, with the mean
    of their scores."""

    def __init__(self, change: Change) -> None:
        labels = change.labels
        self.labels, rows, sizes = np.unique(
            labels % _MAX_ROWS, return_inverse=True, return_counts=True
        )
        self.sizes: Ints = sizes
        """(rows,): the number of questions in each row."""
        self.before = scores_by_row(change.before, labels)
        self.after = scores_by_row(change.after, labels)
        falls = change.expected - (row_means(change.after) - row_means(change.before))
        self.falls: Floats = np.bincount(rows, falls, len(sizes)).astype(np.float64)
        """(rows,): by how much the questions of each row fell together beyond what is
        expected."""
        self.metric_questions = self
        """All questions of the metric, if these are a part of them."""
        self.is_apart = change.is_apart
        self._is_pooled = change.is_pooled or change.before.shape[1] < MIN_RUNS

    @cached_property
    def model(self) -> ScoreModel:
        """What these questions score while nothing changes."""
        if self._is_pooled:
            return learn(np.concatenate([self.before, self.after], axis=1))
        return learn(self.before, unexpected_answers=UNEXPECTED_NOW)

    def p_value(
        self, rng: np.random.Generator, *, min_errors: float = MIN_ERRORS
    ) -> float:
        """The probability that an unchanged or reshuffled system falls as far by
        chance; 1 for a fall of fewer standard errors than `min_errors`."""
        if self.falls.sum() <= 0.0:
            return 1.0
        model = self.metric_questions.model
        weights = model.weights[
            np.searchsorted(self.metric_questions.labels, self.labels)
        ]
        counts_before = np.isfinite(self.before).sum(axis=1)
        counts_after = np.isfinite(self.after).sum(axis=1)
        max_counts = int(counts_before.max()), int(counts_after.max())
        noise = replace(model, weights=weights).variance_of_change(
            *max_counts, is_apart=self.is_apart
        )
        errors = standardised(self.falls[None, :], float(noise @ self.sizes**2))
        if errors[0] < min_errors:
            return 1.0
        means = SampledMeans.draw(model, *max_counts, rng)
        if self.is_apart:
            means = replace(means, after=means.after_independent)
        draws = Draws(weights, model.weights, means, rng)
        draws_by_kind = [
            falls * self.sizes
            for falls in draws.falls(counts_before - 1, counts_after - 1)
        ]
        p_value = _p_value_among(self.falls, draws_by_kind)
        small_draws_by_kind = [
            np.clip(falls, -MAX_SMALL_FALL, MAX_SMALL_FALL) for falls in draws_by_kind
        ]
        small_falls = np.clip(self.falls, -MAX_SMALL_FALL, MAX_SMALL_FALL)
        small_p_value = _p_value_among(small_falls, small_draws_by_kind)
        return min(1.0, p_value / (1.0 - SMALL_SHARE), small_p_value / SMALL_SHARE)


def _p_value_among(falls: Floats, draws_by_kind: Sequence[Floats]) -> float:
    """The largest share of drawn systems that fall as far as `falls` (n,).

    Each of `draws_by_kind` (draws, n) has systems of one kind, unchanged ones first. Where
    there are too few as far, their share comes from an exponential tail.
    """
    variance = float(draws_by_kind[0].var(axis=0).sum())
    observed = float(standardised(falls[None, :], variance)[0])
    shares = []
    for draws in draws_by_kind:
        errors = standardised(draws, variance)
        tail = _tail_of(errors)
        if observed <= tail.start:
            shares.append(float(np.mean(errors >= observed - 1e-9)))
        else:
            excess = (observed - tail.start) / tail.scale
            shares.append(tail.share * float(np.exp(-excess)))
    return max(shares)


class Draws:
    """Draws of n rows that did not change, from which falls are computed.

    `weights` (n, components) are those of the rows, `metric_weights` those of all rows
    of the metric, which a reshuffled row takes its distribution from.
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
        # The falls and their parts are four arrays of this size.
        count = int(np.clip(_MAX_DRAWN_SCORES // (4 * n), _MIN_DRAWS, draws))
        self._means = means
        self.components = drawn_choices(weights, count, rng).T
        """(draws, n): the index of a distribution for each row, by its weights."""
        self.series = rng.integers(0, means.before.shape[1], (count, n))
        """(draws, n): the index of one of the sampled series of this distribution."""
        metric_components = self.components
        if metric_weights is not weights:
            metric_components = drawn_choices(metric_weights, count, rng).T
        self._other_components = rng.choice(metric_components.ravel(), (count, n))
        self._uniform = rng.random((count, n))

    def falls(self, before: Ints, after: Ints) -> list[Floats]:
        """The falls (draws, n) of unchanged systems, and those of systems with each of
        RESHUFFLED_SHARES.

        `before` and `after` (n,) are the numbers of scores less one.
        """
        means_before = self._means.before[self.components, self.series, before]
        means_after = self._means.after[self.components, self.series, after]
        falls = means_before - means_after
        other_means = self._means.after_independent[
            self._other_components, self.series, after
        ]
        other_falls = means_before - other_means
        reshuffled = [
            np.where(self._uniform < share, other_falls, falls)
            for share in RESHUFFLED_SHARES
        ]
        return [falls, *reshuffled]


def standardised(falls: Floats, variance: float) -> Floats:
    """(draws,): the sums of `falls` (draws, n), each divided by its standard error."""
    gains = np.minimum(falls, 0.0)
    squared_gains = np.einsum("ij,ij->i", gains, gains)
    return standard_scores(falls.sum(axis=1), squared_gains, variance)


def standard_scores(sums: Floats, squared_gains: Floats, variance: float) -> Floats:
    """`sums` of falls divided by the larger of two standard errors: of noise, and of
    the questions that got better."""
    # A change that is as likely to harm as to help has losses as large as its gains.
    return sums / np.sqrt(np.maximum(variance, 2.0 * squared_gains) + 1e-12)


def critical_value(draws: Floats, p_value: float) -> float:
    """The value that a share `p_value` of `draws` exceeds."""
    tail = _tail_of(draws)
    if p_value >= tail.share:
        return float(np.quantile(draws, 1.0 - p_value))
    return tail.start + tail.scale * float(np.log(tail.share / p_value))


class _Tail(Struct, frozen=True):
    """An exponential distribution in place of the largest draws."""

    start: float
    scale: float
    share: float
    """The share of the draws that are at least `start`."""


def _tail_of(draws: Floats) -> _Tail:
    """The tail of `draws`, fitted to the largest of them."""
    count = max(10, int(_TAIL_SHARE * len(draws)))
    largest = np.partition(draws, -count)[-count:]
    start = float(largest.min())
    scale = float((largest - start).mean()) + 1e-9
    return _Tail(start, scale, count / len(draws))


def scores_by_row(scores: Floats, labels: Ints) -> Floats:
    """(rows, k): the means of the `scores` (n, k) of questions with equal `labels`
    (n,)."""
    _, rows = np.unique(labels % _MAX_ROWS, return_inverse=True)
    sums = np.zeros((rows.max(initial=-1) + 1, scores.shape[1]))
    counts = np.zeros_like(sums)
    np.add.at(sums, rows, np.nan_to_num(scores))
    np.add.at(counts, rows, np.isfinite(scores))
    with np.errstate(invalid="ignore"):
        return sums / counts
