"""Anytime-valid bounds: right at all times at once, and sooner where the answer is clear."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.sequential import confidence_sequence, log_wealth, watch

PAIRED = (-1.0, 1.0)


def test_looking_after_every_value_seldom_refutes_what_is_true() -> None:
    rng = np.random.default_rng(1)
    wrong = sum(watch(rng.beta(8, 2, size=300), 0.8).decision is not None for _ in range(300))
    # Two sides at 5 % each.
    assert wrong <= 0.1 * 300


def test_differences_that_are_mostly_zero_are_not_refuted_either() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(300):
        change = np.where(rng.random(300) < 0.4, rng.normal(0, 0.25, size=300), 0.0).clip(-1, 1)
        wrong += watch(change, 0.0, bounds=PAIRED).decision == "below"
    assert wrong <= 0.05 * 300 + 6


def test_a_clear_answer_comes_early() -> None:
    rng = np.random.default_rng(3)
    high = watch(rng.beta(18, 2, size=1000), 0.7)
    low = watch(rng.beta(8, 4, size=1000), 0.85)
    assert high.decision == "above"
    assert low.decision == "below"
    assert high.at is not None
    assert low.at is not None
    assert max(high.at, low.at) < 150


def test_the_first_decision_stands_whatever_follows() -> None:
    values = np.concatenate([np.zeros(100), np.ones(900)])
    found = watch(values, 0.5)
    assert found.decision == "below"
    assert found.at is not None
    assert found.at <= 20
    assert watch(values[: found.at], 0.5).at == found.at
    assert watch(values[: found.at - 1], 0.5).decision is None


def test_nothing_is_decided_by_nothing() -> None:
    assert watch(np.array([]), 0.5).decision is None


def test_bounds_at_the_ends_can_not_be_crossed() -> None:
    assert watch(np.zeros(50), 0.0).decision is None
    assert watch(np.ones(50), 1.0).decision is None


def test_wealth_never_depends_on_the_future() -> None:
    values = np.random.default_rng(4).random(60)
    bound = np.array([0.4, 0.6])
    whole = log_wealth(values, bound, alpha=0.05, below=True)
    part = log_wealth(values[:25], bound, alpha=0.05, below=True)
    assert whole[:25] == pytest.approx(part)


def test_limits_only_tighten_and_agree_with_watching() -> None:
    values = np.random.default_rng(5).beta(8, 2, size=400)
    low, high = confidence_sequence(values, confidence=0.9)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) <= 0)
    assert low[-1] < values.mean() < high[-1]
    for bound in (0.7, 0.9):
        found = watch(values, bound)
        refuted = int(np.flatnonzero((high < bound + 1e-3) | (low > bound - 1e-3))[0]) + 1
        assert found.at is not None
        assert abs(found.at - refuted) <= 3


def test_limits_hold_at_all_times_at_once() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(30):
        values = np.where(rng.random(150) < 0.85, 1.0, rng.random(150) / 2)
        low, high = confidence_sequence(values)
        held += bool(np.all((low <= 0.8875) & (high >= 0.8875)))
    assert held >= 27


def test_limits_are_in_the_unit_of_the_bounds() -> None:
    values = np.random.default_rng(7).uniform(-0.2, 0.1, size=300)
    low, high = confidence_sequence(values, bounds=PAIRED)
    assert -1.0 <= low[0] <= low[-1] < -0.05 < high[-1] <= high[0] <= 1.0


def test_values_out_of_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="within"):
        watch(np.array([1.2]), 0.5)
    with pytest.raises(ValueError, match="finite"):
        confidence_sequence(np.array([np.nan]))
