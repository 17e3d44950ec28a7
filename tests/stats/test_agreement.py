"""Agreement coefficients against published worked examples, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.agreement import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha

NAN = np.nan
# Krippendorff's own example: four observers, twelve units ("Computing Krippendorff's Alpha-Reliability", 2011).
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


def covers(found: Agreement, value: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= value <= found.high


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(level: str, published: float) -> None:
    found = krippendorff_alpha(OBSERVERS, level=level)  # type: ignore[arg-type]
    assert found.estimate == pytest.approx(published, abs=0.0006)
    assert found.n == 11


def test_kappa_of_the_textbook_example() -> None:
    # Twenty yes/yes, five yes/no, ten no/yes, fifteen no/no: observed 0.7, expected 0.5.
    first = np.array([1.0] * 25 + [0.0] * 25)
    second = np.array([1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15)
    found = cohen_kappa(first, second)
    assert found.estimate == pytest.approx(0.4)
    assert found.equal == pytest.approx(0.7)
    assert covers(found, 0.4)


def test_weighted_kappa_forgives_near_misses() -> None:
    first = np.array([1, 1, 2, 2, 3, 3, 4, 4] * 5, dtype=float)
    near = np.array([1, 2, 2, 3, 3, 4, 4, 3] * 5, dtype=float)
    plain = cohen_kappa(first, near).estimate
    linear = cohen_kappa(first, near, weights="linear").estimate
    quadratic = cohen_kappa(first, near, weights="quadratic").estimate
    assert 0.0 < (plain or 0.0) < (linear or 0.0) < (quadratic or 0.0) < 1.0


def test_raters_who_agree_by_chance_alone_have_a_kappa_around_zero() -> None:
    rng = np.random.default_rng(1)
    found = cohen_kappa(rng.integers(0, 2, 400).astype(float), rng.integers(0, 2, 400).astype(float))
    assert covers(found, 0.0)


def test_perfect_agreement_on_few_units_is_not_proof_of_perfection() -> None:
    ratings = np.array([0.0, 1.0] * 10)
    kappa = cohen_kappa(ratings, ratings)
    alpha = krippendorff_alpha(np.array([ratings, ratings]))
    assert kappa.estimate == kappa.high == alpha.estimate == alpha.high == 1.0
    assert kappa.low == pytest.approx(1 - (1 - 0.025 ** (1 / 20)) / 0.5)
    assert alpha.low == pytest.approx(kappa.low, abs=0.03)


def test_raters_who_use_one_category_have_no_coefficient_and_no_nan() -> None:
    for found in (cohen_kappa(np.ones(9), np.ones(9)), krippendorff_alpha(np.ones((2, 9)))):
        assert (found.estimate, found.low, found.high) == (None, None, None)
        assert found.equal == 1.0
        assert "not defined" in found.method


def test_units_rated_once_are_left_out() -> None:
    paired = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    longer = np.hstack([paired, np.array([[1.0], [NAN]])])
    assert krippendorff_alpha(longer) == krippendorff_alpha(paired)


@pytest.mark.heavy
def test_intervals_cover_the_coefficient_of_the_population() -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for seed in range(24):
        truth = rng.integers(0, 2, 80)
        first, second = (np.where(rng.random(80) < 0.9, truth, 1 - truth).astype(float) for _ in range(2))
        found = cohen_kappa(first, second, seed=seed)
        inside += covers(found, 0.64)
    assert inside >= 20


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (np.ones(3), np.ones(4), "one length"),
        (np.array([]), np.array([]), "one length"),
        (np.array([1.0, NAN]), np.ones(2), "finite"),
        (np.arange(300.0), np.arange(300.0), "too many"),
    ],
)
def test_ratings_that_can_not_be_compared_are_refused(first: np.ndarray, second: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cohen_kappa(first, second)
    with pytest.raises(ValueError, match="rated twice"):
        krippendorff_alpha(np.array([[1.0, NAN], [NAN, 1.0]]))


def test_fleiss_kappa_of_a_worked_example() -> None:
    """Table 1 of Wikipedia's article "Fleiss' kappa" (14 raters, 10 subjects, 5 categories): 0.210."""
    counts = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    columns = [[k for k, times in enumerate(row) for _ in range(times)] for row in counts]
    found = fleiss_kappa(np.array(columns, dtype=float).T)
    assert found.estimate == pytest.approx(0.210, abs=0.0005)
    assert covers(found, 0.21)
    assert not covers(found, -0.1)
    assert found.n == 10


def test_fleiss_kappa_takes_units_that_everyone_rated() -> None:
    ratings = np.array([[1.0, 0.0, 1.0, np.nan], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    assert fleiss_kappa(ratings).n == 3
    assert fleiss_kappa(ratings) == fleiss_kappa(ratings[:, :3])
    with pytest.raises(ValueError, match="no unit was rated by every rater"):
        fleiss_kappa(ratings[:, 3:])
    with pytest.raises(ValueError, match="two raters or more"):
        fleiss_kappa(ratings[:1])
