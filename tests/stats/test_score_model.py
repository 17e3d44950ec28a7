"""What the scores of a question would be if nothing changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc

from ragstone.stats.arrays import Floats
from ragstone.stats.score_model import LEVELS, SampledMeans, beta_cdf, learn, levels_of


def right_or_wrong(chance: float, n: int = 200, seed: int = 1) -> Floats:
    return (np.random.default_rng(seed).random((n, 6)) < chance).astype(float)


def graded() -> Floats:
    return np.clip(0.7 + np.random.default_rng(3).normal(0.0, 0.1, (100, 6)), 0.0, 1.0)


@pytest.mark.parametrize(
    ("scores", "variance", "tolerance"),
    [(right_or_wrong(0.8), 0.16, 0.03), (graded(), 0.01, 0.006)],
    ids=["binary", "graded"],
)
def test_the_variance_of_answers_is_learnt(scores: Floats, variance: float, tolerance: float) -> None:
    model = learn(scores)
    assert model.variances.mean() == pytest.approx(variance, abs=tolerance)
    assert model.repeated == 0.0


def test_steady_questions_are_told_from_flaky_ones() -> None:
    variances = learn(np.concatenate([np.ones((40, 6)), right_or_wrong(0.5, 40, 2)])).variances
    assert variances[:40].max() < 0.03
    assert variances[40:].mean() > 0.15


def test_answers_that_stay_the_same_are_noticed() -> None:
    rng = np.random.default_rng(4)
    scores = np.empty((200, 6))
    scores[:, 0] = rng.random(200)
    for run in range(1, 6):
        scores[:, run] = np.where(rng.random(200) < 0.4, rng.random(200), scores[:, run - 1])
    assert learn(scores).repeated == pytest.approx(0.6)


def test_a_missing_score_says_nothing_and_scores_are_rounded_to_levels() -> None:
    scores = np.array([[1.0, np.nan, 1.0], [0.0, 0.0, np.nan], [np.nan, np.nan, np.nan]])
    weights = learn(scores).weights
    assert np.isfinite(weights).all()
    assert weights.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0])
    assert levels_of(np.array([0.0, 0.5, 1.0])).tolist() == [0, (LEVELS - 1) // 2, LEVELS - 1]


def test_sampled_means_have_the_variance_of_the_model() -> None:
    model = learn(right_or_wrong(0.7, seed=5))
    means = SampledMeans.draw(model, 6, 3, np.random.default_rng(5))
    likely = int(model.weights.sum(axis=0).argmax())
    falls = means.before[likely, :, 5] - means.after[likely, :, 2]
    assert abs(falls.mean()) < 0.1
    assert falls.var() == pytest.approx(float(model.variance_of_change(6, 3).mean()), rel=0.5)


def test_the_beta_distribution_function_is_that_of_scipy() -> None:
    a = np.array([0.008, 0.5, 1.0, 2.4, 40.0, 399.0])[:, None, None]
    b = np.array([0.01, 0.5, 1.0, 7.0, 380.0])[:, None]
    x = np.linspace(0.0, 1.0, 41)
    np.testing.assert_allclose(beta_cdf(a, b, x), betainc(a, b, x), rtol=0, atol=1e-12)
