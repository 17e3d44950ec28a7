"""Measures of how judges and people agree, with intervals over groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Measure = Callable[[Floats, Floats], float]
"""A number from scores and labels, both (n,)."""

RESAMPLES = 1000

HAS_ALPHA = find_spec("krippendorff") is not None
"""Whether the library of `people_alpha` is installed."""


class Measured(Struct, frozen=True):
    """A measure with its percentile-bootstrap interval; `low` and `high` are None if it
    has none."""

    value: float
    low: float | None
    high: float | None


def auroc(scores: Floats, labels: Floats) -> float:
    """Probability that a random positive scores above a random negative, ties counting
    half, in [0, 1].

    Mann-Whitney U ÷ (n₁ n₀). NaN without both classes.
    """
    positive = labels > 0.5
    n1 = int(positive.sum())
    n0 = positive.size - n1
    if not n1 or not n0:
        return float("nan")
    ranks = stats.rankdata(scores)
    rank_sum = ranks[positive].sum()
    min_rank_sum = n1 * (n1 + 1) / 2
    u = rank_sum - min_rank_sum
    return float(u / (n1 * n0))


def brier(probabilities: Floats, labels: Floats) -> float:
    """Mean squared difference of probabilities and labels, in [0, 1]; 0 is best."""
    errors = probabilities - labels
    return float(np.mean(errors**2))


def pairwise_accuracy(differences: Floats, preferences: Floats) -> float:
    """Share of pairs in which the judge's difference has the sign of people's
    preference; a judge's tie counts half. Pairs without a human preference are left
    out.
    """
    decided = preferences != 0
    if not decided.any():
        return float("nan")
    judge_signs = np.sign(differences[decided])
    people_signs = np.sign(preferences[decided])
    agreement = judge_signs * people_signs
    return float(np.mean((agreement + 1) / 2))


def estimate(
    measure: Measure,
    scores: Floats,
    labels: Floats,
    groups: Sequence[str],
) -> Measured:
    """`measure` of all rows, with an interval from resampling whole groups (Field &
    Welsh 2007)."""
    return resampled(lambda rows: measure(scores[rows], labels[rows]), groups)


def resampled(
    measure: Callable[[NDArray[np.int64]], float], groups: Sequence[str]
) -> Measured:
    """A `measure` of rows, which are numbered as in `groups`, with a 95 % interval from
    resampling whole groups."""
    value = measure(np.arange(len(groups)))
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if names.size < 2 or not np.isfinite(value):
        return Measured(value, None, None)
    order = np.argsort(members, kind="stable")
    group_numbers = np.arange(1, names.size)
    starts = np.searchsorted(members[order], group_numbers)
    rows = np.split(order, starts)
    random = np.random.default_rng(0)
    draws = []
    for _ in range(RESAMPLES):
        drawn_groups = random.integers(0, names.size, names.size)
        drawn_rows = np.concatenate([rows[group] for group in drawn_groups])
        draws.append(measure(drawn_rows))
    values = np.asarray(draws)
    finite = values[np.isfinite(values)]
    if finite.size < RESAMPLES // 2:
        return Measured(value, None, None)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Measured(value, float(low), float(high))


def cohen_kappa(first: Floats, second: Floats) -> Measured | None:
    """Cohen's kappa of two raters' marks (n,), which are 0 or 1.

    1 - observed ÷ expected disagreement (J. Cohen, Educational and Psychological
    Measurement 20, 1960). None if it is not defined because all marks are the same.
    """
    return _agreement(_of_marks, first, second)


def krippendorff_alpha(first: Floats, second: Floats) -> Measured | None:
    """Krippendorff's alpha at interval level of two raters' numbers (n,).

    1 - observed ÷ expected disagreement, which are mean squared differences (K.
    Krippendorff, "Content Analysis", 2004, section 11.3). None if it is not defined
    because all numbers are the same.
    """
    return _agreement(_of_numbers, first, second)


def _of_marks(first: Floats, second: Floats) -> tuple[float, float]:
    a = first.mean()
    b = second.mean()
    observed = np.mean(first != second)
    only_first = a * (1.0 - b)
    only_second = b * (1.0 - a)
    expected = only_first + only_second
    return float(observed), float(expected)


def _of_numbers(first: Floats, second: Floats) -> tuple[float, float]:
    differences = first - second
    observed = np.mean(differences**2)
    ratings = np.concatenate([first, second])
    variance = ratings.var(ddof=1)
    return float(observed), 2.0 * float(variance)


def _agreement(
    disagreement: Callable[[Floats, Floats], tuple[float, float]],
    first: Floats,
    second: Floats,
) -> Measured | None:
    """Agreement beyond chance, by the mean disagreement of a pair of ratings, observed
    and expected."""

    def coefficient(rows: NDArray[np.int64]) -> float:
        observed, expected = disagreement(first[rows], second[rows])
        return float("nan") if expected <= 1e-15 else 1.0 - observed / expected

    observed, expected = disagreement(first, second)
    if expected <= 1e-15:
        return None
    n = len(first)
    units = list(map(str, range(n)))
    measured = resampled(coefficient, units)
    if observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may
        # still disagree (exact binomial), by the range of the ratings.
        share = 1.0 - 0.025 ** (1.0 / n)
        spread = float(np.ptp(first))
        lowest = 1.0 - share * spread**2 / expected
        measured = Measured(1.0, max(-1.0, lowest), 1.0)
    return measured


def people_alpha(ratings: Floats) -> Measured | None:
    """Krippendorff's alpha of `ratings` (people, samples) in [0, 1], NaN where somebody
    gave no label.

    Labels of pass or fail are compared as names, others by their distance, to a
    twentieth. None if all are the same. Raises ImportError without the library.
    """
    import krippendorff

    labels = np.sum(~np.isnan(ratings), axis=0)
    comparable = ratings[:, labels >= 2]
    rounded = np.round(comparable * 20.0) / 20.0
    rated = rounded[~np.isnan(rounded)]
    values = np.unique(rated)
    level: Literal["nominal", "interval"] = "interval"
    is_mark = (values == 0.0) | (values == 1.0)
    if np.all(is_mark):
        level = "nominal"

    def alpha(rows: NDArray[np.int64]) -> float:
        table = rounded[:, rows]
        drawn_values = np.unique(table[~np.isnan(table)])
        if drawn_values.size < 2:
            return float("nan")
        value = krippendorff.alpha(
            table, level_of_measurement=level, value_domain=values
        )
        return float(value)

    n = rounded.shape[1]
    units = list(map(str, range(n)))
    measured = resampled(alpha, units)
    return measured if np.isfinite(measured.value) else None
