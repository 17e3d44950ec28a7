"""Variance components and the noise floor."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.variance import variance_components


def test_a_balanced_table_gives_the_mean_squares_of_the_textbook() -> None:
    values = np.array([[1.0, 2.0], [4.0, 6.0], [9.0, 8.0]])
    found = variance_components(values.ravel(), np.repeat(np.arange(3), 2))
    within = float(np.mean(values.var(axis=1, ddof=1)))
    between = 2 * float(values.mean(axis=1).var(ddof=1))
    assert found.readings == pytest.approx(within)
    assert found.units == pytest.approx((between - within) / 2)
    assert found.draws is None


def test_components_of_an_unbalanced_nested_design_are_recovered() -> None:
    rng = np.random.default_rng(1)
    values, units, draws = [], [], []
    for unit in range(1500):
        centre = rng.normal(0, 0.3)
        for draw in range(rng.integers(1, 4)):
            answer = centre + rng.normal(0, 0.2)
            for _ in range(rng.integers(1, 4)):
                values.append(answer + rng.normal(0, 0.1))
                units.append(unit)
                draws.append(draw)
    found = variance_components(np.array(values), np.array(units), np.array(draws))
    assert found.units == pytest.approx(0.09, rel=0.12)
    assert found.draws == pytest.approx(0.04, rel=0.12)
    assert found.readings == pytest.approx(0.01, rel=0.12)
    assert found.share(found.readings) == pytest.approx(0.01 / 0.14, rel=0.15)


def test_what_was_not_repeated_is_not_known() -> None:
    once = variance_components(np.array([0.1, 0.5, 0.9]), np.arange(3))
    assert once.readings is None
    assert once.draws is None
    assert once.units == pytest.approx(np.var([0.1, 0.5, 0.9], ddof=1))
    assert once.share(once.readings) is None


def test_a_steady_judge_has_no_variance() -> None:
    found = variance_components(np.array([0.2, 0.2, 0.9, 0.9]), np.array([0, 0, 1, 1]))
    assert found.readings == 0.0


def test_negative_estimates_are_zero() -> None:
    values = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    found = variance_components(values, np.array([0, 0, 1, 1, 2, 2]))
    assert found.units == 0.0
    assert found.readings == 0.5


@pytest.mark.parametrize(
    ("values", "units", "words"),
    [
        (np.ones(3), np.zeros(3, dtype=np.int64), "two units"),
        (np.array([1.0, np.nan]), np.arange(2), "finite"),
        (np.ones(3), np.arange(2), "one length"),
    ],
)
def test_readings_without_units_to_compare_are_refused(values: np.ndarray, units: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        variance_components(values, units)
