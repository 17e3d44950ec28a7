"""Measures of how well judges and people agree, with intervals over groups."""

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
"""Computes a number from scores and labels, both (n,); NaN if it is not defined."""

RESAMPLES = 1000

_TAIL = 0.025
"""The probability that a value is below a 95 % interval; that above is the same."""

_NO_DISAGREEMENT = 1e-15
"""An expected disagreement up to this is a rounding error: all ratings are the same."""

HAS_ALPHA = find_spec("krippendorff") is not None
"""Whether the library that `alpha_of_people` needs is installed."""


class Measurement(Struct, frozen=True):
    """A measure with its percentile-bootstrap interval; `low` and `high` are None if it
    has none."""

    value: float
    low: float | None
    high: float | None


def auroc(scores: Floats, labels: Floats) -> float:
    """Probability that a random positive scores above a random negative, ties counting
    half, in [0, 1].

    Mann-Whitney U ÷ (n₁ n₀), of n₁ positives and n₀ negatives. NaN without both.
    """
    is_positive = labels > 0.5
    n1 = int(is_positive.sum())
    n0 = is_positive.size - n1
    if not n1 or not n0:
        return float("nan")
    ranks = stats.rankdata(scores)
    rank_sum = ranks[is_positive].sum()
    min_rank_sum = n1 * (n1 + 1) / 2
    u = rank_sum - min_rank_sum
    return float(u / (n1 * n0))


def brier(probabilities: Floats, labels: Floats) -> float:
    """Mean squared difference of probabilities and labels, in [0, 1]; 0 is best."""
    errors = probabilities - labels
    return float(np.mean(errors**2))


def pairwise_accuracy(differences: Floats, preferences: Floats) -> float:
    """Share of pairs in which the judge prefers the case that people prefer; a judge's
    tie counts half.

    Of each pair, `differences` has the judge's score of the first case minus that of
    the second, and the sign of `preferences` says which one people prefer. Pairs with
    the preference 0 are left out. NaN if all are.
    """
    is_decided = preferences != 0
    if not is_decided.any():
        return float("nan")
    judge_signs = np.sign(differences[is_decided])
    people_signs = np.sign(preferences[is_decided])
    agreement = judge_signs * people_signs
    return float(np.mean((agreement + 1) / 2))


def estimate(
    measure: Measure,
    scores: Floats,
    labels: Floats,
    groups: Sequence[str],
) -> Measurement:
    """Compute `measure` of all rows, with a 95 % interval from resampling whole groups
    (Field & Welsh 2007)."""
    return _resample(lambda rows: measure(scores[rows], labels[rows]), groups)


def _resample(
    measure: Callable[[NDArray[np.int64]], float], groups: Sequence[str]
) -> Measurement:
    """Compute `measure` of all rows, with a 95 % interval from resampling whole groups.

    `groups` has the group of each row. `measure` takes numbers of rows.
    """
    value = measure(np.arange(len(groups)))
    distinct_groups, group_numbers = np.unique(np.asarray(groups), return_inverse=True)
    group_count = distinct_groups.size
    if group_count < 2 or not np.isfinite(value):
        return Measurement(value, low=None, high=None)
    order = np.argsort(group_numbers, kind="stable")
    starts = np.searchsorted(group_numbers[order], np.arange(1, group_count))
    rows_of_groups = np.split(order, starts)
    generator = np.random.default_rng(0)
    values = []
    for _ in range(RESAMPLES):
        drawn_groups = generator.integers(0, group_count, group_count)
        drawn_rows = np.concatenate([rows_of_groups[group] for group in drawn_groups])
        values.append(measure(drawn_rows))
    resampled = np.asarray(values)
    finite = resampled[np.isfinite(resampled)]
    if finite.size < RESAMPLES // 2:
        return Measurement(value, low=None, high=None)
    low, high = np.quantile(finite, [_TAIL, 1.0 - _TAIL])
    return Measurement(value, float(low), float(high))


def cohen_kappa(first: Floats, second: Floats) -> Measurement | None:
    """Cohen's kappa of the ratings (n,) of two raters, which are 0 or 1.

    1 - observed ÷ expected disagreement (J. Cohen, Educational and Psychological
    Measurement 20, 1960). None if all ratings are the same.
    """
    return _agreement(_disagreement_of_marks, first, second)


def krippendorff_alpha(first: Floats, second: Floats) -> Measurement | None:
    """Krippendorff's alpha at interval level of the ratings (n,) of two raters.

    1 - observed ÷ expected disagreement, which are mean squared differences (K.
    Krippendorff, "Content Analysis", 2004, section 11.3). None if all ratings are the
    same.
    """
    return _agreement(_disagreement_of_numbers, first, second)


def _disagreement_of_marks(first: Floats, second: Floats) -> tuple[float, float]:
    """The share of units that two raters mark differently: observed, and expected if
    each marked at random with the same share of ones."""
    first_share = first.mean()
    second_share = second.mean()
    observed = np.mean(first != second)
    only_first = first_share * (1.0 - second_share)
    only_second = second_share * (1.0 - first_share)
    expected = only_first + only_second
    return float(observed), float(expected)


def _disagreement_of_numbers(first: Floats, second: Floats) -> tuple[float, float]:
    """The mean squared difference of two ratings of a unit, observed, and of any two
    ratings, which is expected by chance."""
    differences = first - second
    observed = np.mean(differences**2)
    ratings = np.concatenate([first, second])
    variance = ratings.var(ddof=1)
    return float(observed), 2.0 * float(variance)


def _agreement(
    disagreement: Callable[[Floats, Floats], tuple[float, float]],
    first: Floats,
    second: Floats,
) -> Measurement | None:
    """Agreement beyond chance, 1 - observed ÷ expected disagreement, with its interval;
    None if all ratings are the same.

    `disagreement` computes the two, in this order, from the ratings of two raters.
    """

    def coefficient(rows: NDArray[np.int64]) -> float:
        observed, expected = disagreement(first[rows], second[rows])
        if expected <= _NO_DISAGREEMENT:
            return float("nan")
        return 1.0 - observed / expected

    observed, expected = disagreement(first, second)
    if expected <= _NO_DISAGREEMENT:
        return None
    n = len(first)
    units = list(map(str, range(n)))  # each is a group of its own
    measured = _resample(coefficient, units)
    if observed == 0.0:
        # If all units agree, so does every resample. Up to 1 - tail^(1/n) of units may
        # still disagree (exact binomial), by the range of the ratings.
        max_share = 1.0 - _TAIL ** (1.0 / n)
        max_difference = float(np.ptp(first))
        low = 1.0 - max_share * max_difference**2 / expected
        measured = Measurement(1.0, max(-1.0, low), 1.0)
    return measured


def alpha_of_people(ratings: Floats) -> Measurement | None:
    """Krippendorff's alpha of `ratings` (people, samples) in [0, 1], NaN where somebody
    gave no label.

    If all ratings are 0 or 1, they are compared as names, else by their distance,
    rounded to a twentieth. None if all are the same. Raises ImportError without the
    library `krippendorff`.
    """
    import krippendorff

    labels_per_sample = np.sum(~np.isnan(ratings), axis=0)
    comparable = ratings[:, labels_per_sample >= 2]
    # The library compares each value with each, so that many values take long.
    rounded = np.round(comparable * 20.0) / 20.0
    values = np.unique(rounded[~np.isnan(rounded)])
    level: Literal["nominal", "interval"] = "interval"
    is_mark = (values == 0.0) | (values == 1.0)
    if np.all(is_mark):
        level = "nominal"

    def alpha(samples: NDArray[np.int64]) -> float:
        table = rounded[:, samples]
        drawn_values = np.unique(table[~np.isnan(table)])
        if drawn_values.size < 2:
            return float("nan")
        value = krippendorff.alpha(
            table, level_of_measurement=level, value_domain=values
        )
        return float(value)

    sample_count = rounded.shape[1]
    units = list(map(str, range(sample_count)))  # each is a group of its own
    measured = _resample(alpha, units)
    return measured if np.isfinite(measured.value) else None
