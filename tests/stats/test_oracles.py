"""The same figures as the packages that others use: scikit-learn, krippendorff and ppi-python.

They come with the dependency group `oracles`, which `make test` does without, so each test imports its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.tools.judging.measures import cohen_kappa, krippendorff_alpha
from ragstone.tools.judging.people_mean import people_mean

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_that_of_scikit_learn_and_krippendorff(seed: int) -> None:
    import krippendorff
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, 70).astype(float)
    second = np.where(rng.random(70) < 0.7, first, 1.0 - first)
    kappa = cohen_kappa(first, second)
    assert kappa is not None
    assert kappa.value == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
    scores = rng.random(70)
    others = np.clip(scores + rng.normal(0.0, 0.2, 70), 0.0, 1.0)
    expected = krippendorff.alpha(np.vstack([scores, others]), level_of_measurement="interval")
    alpha = krippendorff_alpha(scores, others)
    assert alpha is not None
    assert alpha.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_powered_means_agree_with_ppi_python(seed: int) -> None:
    import ppi_py

    rng = np.random.default_rng(seed)
    labels = (rng.random(900) < 0.7).astype(float)
    scores = np.clip(0.6 * labels + rng.normal(0.2, 0.2, size=900), 0, 1)
    n = 100 + 30 * seed
    mean = people_mean(labels[:n], scores[:n], np.ones(n), scores)
    assert mean.judge_weight > 0.5
    expected = ppi_py.ppi_mean_pointestimate(labels[:n], scores[:n], scores, lam=mean.judge_weight)
    assert mean.estimate == pytest.approx(float(expected[0]), abs=1e-9)
    low, high = ppi_py.ppi_mean_ci(labels[:n], scores[:n], scores[n:], alpha=0.05)
    # Ours is the wider one: theirs is normal, ours holds for few labels too.
    assert mean.high - mean.low >= float(high[0] - low[0]) - 0.01
