"""Measures of agreement with labels, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.tools.judging.measures import auroc, estimate, pairwise_accuracy

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
    dice = np.random.default_rng(1)
    labels = dice.integers(0, 2, 60).astype(float)
    scores = labels + dice.normal(0, 1, 60)
    each = [str(row) for row in range(60)]
    in_tens = [str(row // 10) for row in range(60)]
    first = estimate(auroc, scores, labels, each)
    assert first == estimate(auroc, scores, labels, each)
    assert first.low is not None
    assert first.high is not None
    assert first.low <= first.value <= first.high
    assert estimate(auroc, scores, labels, in_tens) != first
    assert estimate(auroc, scores, labels, ["one"] * 60).low is None
