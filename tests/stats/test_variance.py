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
    assert (found.units, found.readings) == pytest.approx(((between - within) / 2, within))
    assert found.draws is None


def test_components_of_an_unbalanced_nested_design_are_recovered() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for unit in range(1500):
        centre = rng.normal(0, 0.3)
        for draw in range(rng.integers(1, 4)):
            answer = centre + rng.normal(0, 0.2)
            rows += [(answer + rng.normal(0, 0.1), unit, draw) for _ in range(rng.integers(1, 4))]
    values, units, draws = (np.array(column) for column in zip(*rows, strict=True))
    found = variance_components(values, units, draws)
    assert (found.units, found.draws, found.readings) == pytest.approx((0.09, 0.04, 0.01), rel=0.12)
    assert found.share(found.readings) == pytest.approx(0.01 / 0.14, rel=0.15)


@pytest.mark.parametrize(
    ("values", "repeats", "units", "readings"),
    [
        ([0.1, 0.5, 0.9], 1, np.var([0.1, 0.5, 0.9], ddof=1), None),  # what was not repeated is not known
        ([0.2, 0.2, 0.9, 0.9], 2, 0.245, 0.0),  # a steady judge has no variance
        ([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], 2, 0.0, 0.5),  # negative estimates are zero
    ],
)
def test_components_at_the_edges(values: list[float], repeats: int, units: float, readings: float | None) -> None:
    found = variance_components(np.array(values), np.repeat(np.arange(len(values) // repeats), repeats))
    assert (found.draws, found.readings) == (None, readings)
    assert found.units == pytest.approx(units)
    assert found.share(None) is None


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
