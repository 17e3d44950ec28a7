"""The measures, against their definitions and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragstone.tools.judging.metaeval import scoring

ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_auroc_is_the_share_of_pairs_in_the_right_order_with_ties_as_half(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([float(score) for score, _ in rows])
    labels = np.array([float(label) for _, label in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a, up in rows if up for b, low in rows if not low]
    found = scoring.auroc(scores, labels)
    if pairs:
        assert found == pytest.approx(sum(pairs) / len(pairs))
    else:
        assert math.isnan(found)


def test_correlations_are_those_of_scipy() -> None:
    dice = np.random.default_rng(3)
    a, b = dice.random(40).round(1), dice.random(40).round(1)
    assert scoring.pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0])
    assert scoring.spearman(a, b) == pytest.approx(stats.spearmanr(a, b)[0])
    assert math.isnan(scoring.pearson(np.ones(5), np.arange(5.0)))


def test_verdicts_are_measured_on_both_classes() -> None:
    said = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    true = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    assert scoring.balanced_accuracy(said, true) == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert scoring.f1_score(said, true) == pytest.approx(2 * 2 / 6)


def test_a_pair_that_people_did_not_decide_does_not_count_and_a_tie_counts_half() -> None:
    differences = np.array([0.5, -0.2, 0.0, 0.9])
    preferences = np.array([2.0, 1.0, -1.0, 0.0])
    assert scoring.pairwise_accuracy(differences, preferences) == pytest.approx(0.5)


def test_a_calibrated_judge_has_no_calibration_error() -> None:
    labels = np.array([0.0, 1.0] * 50)
    assert scoring.calibration_error(np.full(100, 0.5), labels) == pytest.approx(0.0)
    assert scoring.calibration_error(np.ones(100), labels) == pytest.approx(0.5)
    assert scoring.brier(np.full(100, 0.5), labels) == pytest.approx(0.25)


def test_intervals_are_seeded_and_resample_whole_groups() -> None:
    dice = np.random.default_rng(1)
    labels = dice.integers(0, 2, 60).astype(float)
    scores = labels + dice.normal(0, 1, 60)
    each = [str(row) for row in range(60)]
    in_tens = [str(row // 10) for row in range(60)]
    first = scoring.estimate(scoring.auroc, scores, labels, each, seed=7)
    assert first == scoring.estimate(scoring.auroc, scores, labels, each, seed=7)
    assert first.low is not None
    assert first.high is not None
    assert first.low <= first.value <= first.high
    assert scoring.estimate(scoring.auroc, scores, labels, in_tens, seed=7) != first
    assert scoring.estimate(scoring.auroc, scores, labels, ["one"] * 60).low is None
