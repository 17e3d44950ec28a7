"""Measures of agreement with people: arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Measure = Callable[[Floats, Floats], float]

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure with its 95 % percentile-bootstrap interval; `low` and `high` are None if it has none."""

    value: float
    low: float | None
    high: float | None


def auroc(scores: Floats, labels: Floats) -> float:
    """Probability that a random positive scores above a random negative, ties counting half, in [0, 1].

    Mann-Whitney U ÷ (n₁ n₀). NaN without both classes.
    """
    positive = labels > 0.5
    n1 = int(positive.sum())
    n0 = positive.size - n1
    if not n1 or not n0:
        return float("nan")
    ranks = stats.rankdata(scores)
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def balanced_accuracy(verdicts: Floats, labels: Floats) -> float:
    """Mean of the shares of positives and of negatives that are judged correctly, in [0, 1]."""
    positive = labels > 0.5
    if positive.all() or not positive.any():
        return float("nan")
    said = verdicts > 0.5
    return float((said[positive].mean() + (~said[~positive]).mean()) / 2)


def f1_score(verdicts: Floats, labels: Floats) -> float:
    """F1 of the positive class, in [0, 1]; 0 if nothing is judged positive."""
    said, positive = verdicts > 0.5, labels > 0.5
    both = int((said & positive).sum())
    total = int(said.sum() + positive.sum())
    return 2 * both / total if total else float("nan")


def exact(scores: Floats, labels: Floats) -> float:
    """Share of cases in which the judge's number equals people's, in [0, 1]."""
    return float(np.mean(scores == labels))


def pearson(scores: Floats, labels: Floats) -> float:
    """Pearson's correlation, in [-1, 1]; NaN if one side is constant."""
    if scores.size < 2 or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return float("nan")
    return float(np.corrcoef(scores, labels)[0, 1])


def spearman(scores: Floats, labels: Floats) -> float:
    """Pearson's correlation of the ranks, ties sharing their mean rank, in [-1, 1]."""
    return pearson(stats.rankdata(scores), stats.rankdata(labels))


def pairwise_accuracy(differences: Floats, preferences: Floats) -> float:
    """Share of pairs in which the judge's difference has the sign of people's preference; a judge's tie counts half.
    Pairs without a human preference are left out.
    """
    decided = preferences != 0
    if not decided.any():
        return float("nan")
    agreement = np.sign(differences[decided]) * np.sign(preferences[decided])
    return float(np.mean((agreement + 1) / 2))


def brier(probabilities: Floats, labels: Floats) -> float:
    """Mean squared difference of probability and label (Brier 1950); 0 is best."""
    return float(np.mean((probabilities - labels) ** 2))


def calibration_error(probabilities: Floats, labels: Floats, bins: int = 10) -> float:
    """Expected calibration error: mean gap between probability and share of positives, over equal-frequency bins."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if part.size]
    gaps = [abs(probabilities[part].mean() - labels[part].mean()) * part.size for part in parts]
    return float(sum(gaps) / probabilities.size)


def estimate(measure: Measure, scores: Floats, labels: Floats, groups: Sequence[str], *, seed: int = 0) -> Measured:
    """`measure` of all rows, with an interval from resampling whole groups (Field & Welsh 2007)."""
    value = measure(scores, labels)
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if names.size < 2 or not np.isfinite(value):
        return Measured(value, None, None)
    order = np.argsort(members, kind="stable")
    starts = np.searchsorted(members[order], np.arange(names.size + 1))
    rows = [order[starts[group] : starts[group + 1]] for group in range(names.size)]
    random = np.random.default_rng(seed)
    draws = []
    for _ in range(RESAMPLES):
        picked = np.concatenate([rows[group] for group in random.integers(0, names.size, names.size)])
        draws.append(measure(scores[picked], labels[picked]))
    finite = np.asarray([draw for draw in draws if np.isfinite(draw)])
    if finite.size < RESAMPLES // 2:
        return Measured(value, None, None)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Measured(value, float(low), float(high))
