"""Measures of agreement with labels, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.tools.judging.measures import (
    Measurement,
    auroc,
    cohen_kappa,
    estimate,
    krippendorff_alpha,
    pairwise_accuracy,
)

ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_auroc_is_the_share_of_pairs_in_the_right_order_with_ties_as_half(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([float(score) for score, _ in rows])
    labels = np.array([float(label) for _, label in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a, up in rows if up for b, low in rows if not low]
    found = auroc(scores, labels)
    if pairs:
        assert found == pytest.approx(sum(pairs) / len(pairs))
    else:
        assert math.isnan(found)


def test_a_pair_that_people_did_not_decide_does_not_count_and_a_tie_counts_half() -> None:
    differences = np.array([0.5, -0.2, 0.0, 0.9])
    preferences = np.array([2.0, 1.0, -1.0, 0.0])
    assert pairwise_accuracy(differences, preferences) == pytest.approx(0.5)


def test_intervals_are_seeded_and_resample_whole_groups() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 60).astype(float)
    scores = labels + rng.normal(0, 1, 60)
    single_groups = [str(row) for row in range(60)]
    groups_of_ten = [str(row // 10) for row in range(60)]
    first = estimate(auroc, scores, labels, single_groups)
    assert first == estimate(auroc, scores, labels, single_groups)
    assert covers(first, first.value)
    assert estimate(auroc, scores, labels, groups_of_ten) != first
    assert estimate(auroc, scores, labels, ["one"] * 60).low is None


def covers(measured: Measurement | None, value: float) -> bool:
    """Whether there is an interval, and `value` is in it."""
    if measured is None or measured.low is None or measured.high is None:
        return False
    return measured.low <= value <= measured.high


def test_kappa_of_the_textbook_example_and_of_chance() -> None:
    # Twenty yes/yes, five yes/no, ten no/yes, fifteen no/no: observed 0.7, expected 0.5.
    first = np.array([1.0] * 25 + [0.0] * 25)
    second = np.array([1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15)
    kappa = cohen_kappa(first, second)
    assert kappa is not None
    assert kappa.value == pytest.approx(0.4)
    assert covers(kappa, 0.4)
    rng = np.random.default_rng(1)
    assert covers(cohen_kappa(*rng.integers(0, 2, (2, 400)).astype(float)), 0.0)


def test_perfect_agreement_on_few_units_is_not_proof_of_perfection() -> None:
    ratings = np.array([0.0, 1.0] * 10)
    kappa, alpha = cohen_kappa(ratings, ratings), krippendorff_alpha(ratings, ratings)
    assert kappa is not None
    assert alpha is not None
    assert kappa.value == kappa.high == alpha.value == alpha.high == 1.0
    assert kappa.low == pytest.approx(1 - (1 - 0.025 ** (1 / 20)) / 0.5)
    assert alpha.low == pytest.approx(kappa.low, abs=0.03)


def test_agreement_is_not_defined_where_all_ratings_are_the_same() -> None:
    assert cohen_kappa(np.ones(9), np.ones(9)) is krippendorff_alpha(np.ones(9), np.ones(9)) is None


@pytest.mark.heavy
def test_intervals_cover_the_coefficient_of_the_population() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(24):
        truth = rng.integers(0, 2, 80)
        first, second = (np.where(rng.random(80) < 0.9, truth, 1 - truth).astype(float) for _ in range(2))
        covered += covers(cohen_kappa(first, second), 0.64)
    assert covered >= 20
