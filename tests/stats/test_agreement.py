"""Agreement coefficients against worked examples, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.agreement import Agreement, cohen_kappa, krippendorff_alpha


def covers(found: Agreement, value: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= value <= found.high


def test_alpha_of_a_worked_example() -> None:
    # Observed: mean squared difference 0.04 ÷ 5; expected: 2 Σ (v - mean)² ÷ (10 - 1) over all ten values.
    first, second = np.array([0.0, 0.2, 0.4, 0.8, 1.0]), np.array([0.0, 0.2, 0.4, 1.0, 1.0])
    values = np.concatenate([first, second])
    expected = 2 * float(np.sum((values - values.mean()) ** 2)) / 9
    assert krippendorff_alpha(first, second).estimate == pytest.approx(1 - 0.04 / 5 / expected)


def test_kappa_of_the_textbook_example_and_of_chance() -> None:
    # Twenty yes/yes, five yes/no, ten no/yes, fifteen no/no: observed 0.7, expected 0.5.
    first = np.array([1.0] * 25 + [0.0] * 25)
    second = np.array([1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15)
    found = cohen_kappa(first, second)
    assert found.estimate == pytest.approx(0.4)
    assert found.equal == pytest.approx(0.7)
    assert covers(found, 0.4)
    rng = np.random.default_rng(1)
    assert covers(cohen_kappa(*rng.integers(0, 2, (2, 400)).astype(float)), 0.0)


def test_perfect_agreement_on_few_units_is_not_proof_of_perfection() -> None:
    ratings = np.array([0.0, 1.0] * 10)
    kappa, alpha = cohen_kappa(ratings, ratings), krippendorff_alpha(ratings, ratings)
    assert kappa.estimate == kappa.high == alpha.estimate == alpha.high == 1.0
    assert kappa.low == pytest.approx(1 - (1 - 0.025 ** (1 / 20)) / 0.5)
    assert alpha.low == pytest.approx(kappa.low, abs=0.03)


@pytest.mark.parametrize("coefficient", [cohen_kappa, krippendorff_alpha])
def test_ratings_that_say_nothing_or_can_not_be_compared(coefficient: type) -> None:
    found = coefficient(np.ones(9), np.ones(9))
    assert (found.estimate, found.low, found.high, found.equal) == (None, None, None, 1.0)
    assert "not defined" in found.method
    for first, second, words in (
        (np.ones(3), np.ones(4), "one length"),
        (np.array([]), np.array([]), "one length"),
        (np.array([1.0, np.nan]), np.ones(2), "0 or 1" if coefficient is cohen_kappa else "finite"),
    ):
        with pytest.raises(ValueError, match=words):
            coefficient(first, second)
    with pytest.raises(ValueError, match="0 or 1"):
        cohen_kappa(np.array([0.5]), np.array([1.0]))


@pytest.mark.heavy
def test_intervals_cover_the_coefficient_of_the_population() -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(24):
        truth = rng.integers(0, 2, 80)
        first, second = (np.where(rng.random(80) < 0.9, truth, 1 - truth).astype(float) for _ in range(2))
        inside += covers(cohen_kappa(first, second), 0.64)
    assert inside >= 20
