"""What the scores of a question would be if nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.score_model import LEVELS, SampledMeans, beta_cdf, learn, levels_of


def test_the_variance_of_right_or_wrong_answers_is_learnt() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.random((200, 6)) < 0.8).astype(float)
    model = learn(scores)
    assert model.variances.mean() == pytest.approx(0.16, abs=0.03)
    assert model.repeated == 0.0


def test_steady_questions_are_told_from_flaky_ones() -> None:
    rng = np.random.default_rng(2)
    steady, flaky = np.ones((40, 6)), (rng.random((40, 6)) < 0.5).astype(float)
    variances = learn(np.concatenate([steady, flaky])).variances
    assert variances[:40].max() < 0.03
    assert variances[40:].mean() > 0.15


def test_the_noise_of_graded_scores_is_learnt() -> None:
    rng = np.random.default_rng(3)
    scores = np.clip(0.7 + rng.normal(0.0, 0.1, (100, 6)), 0.0, 1.0)
    assert learn(scores).variances.mean() == pytest.approx(0.01, abs=0.006)


def test_answers_that_stay_the_same_are_noticed() -> None:
    rng = np.random.default_rng(4)
    scores = np.empty((200, 6))
    scores[:, 0] = rng.random(200)
    for run in range(1, 6):
        scores[:, run] = np.where(rng.random(200) < 0.4, rng.random(200), scores[:, run - 1])
    assert learn(scores).repeated == pytest.approx(0.6)


def test_a_missing_score_says_nothing() -> None:
    scores = np.array([[1.0, np.nan, 1.0], [0.0, 0.0, np.nan], [np.nan, np.nan, np.nan]])
    weights = learn(scores).weights
    assert np.isfinite(weights).all()
    assert weights.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0])


def test_sampled_means_have_the_variance_of_the_model() -> None:
    rng = np.random.default_rng(5)
    model = learn((rng.random((200, 6)) < 0.7).astype(float))
    means = SampledMeans.draw(model, 6, 3, rng)
    likely = int(model.weights.sum(axis=0).argmax())
    falls = means.before[likely, :, 5] - means.after[likely, :, 2]
    assert abs(falls.mean()) < 0.1
    assert falls.var() == pytest.approx(float(model.variance_of_change(6, 3).mean()), rel=0.5)


def test_scores_are_rounded_to_levels() -> None:
    assert levels_of(np.array([0.0, 0.5, 1.0])).tolist() == [0, (LEVELS - 1) // 2, LEVELS - 1]


def test_the_beta_distribution_function_is_that_of_scipy() -> None:
    from scipy.special import betainc

    a = np.array([0.008, 0.5, 1.0, 2.4, 40.0, 399.0])[:, None, None]
    b = np.array([0.01, 0.5, 1.0, 7.0, 380.0])[:, None]
    x = np.linspace(0.0, 1.0, 41)
    np.testing.assert_allclose(beta_cdf(a, b, x), betainc(a, b, x), rtol=0, atol=1e-12)
