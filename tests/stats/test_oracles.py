"""The same figures as the packages that others use: scikit-learn, krippendorff and ppi-python.

They come with the dependency group `oracles`, which `make test` does without, so each test imports its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.agreement import Level, Weights, cohen_kappa, krippendorff_alpha
from ragstone.stats.ppi import powered_mean

pytestmark = pytest.mark.heavy


def ratings(seed: int) -> np.ndarray:
    """Three raters, 70 units, five ordered categories, some ratings missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, size=70).astype(float)
    table = np.array([np.where(rng.random(70) < 0.6, truth, rng.integers(0, 5, size=70)) for _ in range(3)])
    table[rng.random(table.shape) < 0.15] = np.nan
    return table


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("weights", "theirs"), [("none", None), ("linear", "linear"), ("quadratic", "quadratic")])
def test_kappa_agrees_with_scikit_learn(seed: int, weights: Weights, theirs: str | None) -> None:
    from sklearn.metrics import cohen_kappa_score

    table = ratings(seed)
    both = ~np.isnan(table[0]) & ~np.isnan(table[1])
    first, second = table[0, both], table[1, both]
    expected = cohen_kappa_score(first, second, weights=theirs)
    assert cohen_kappa(first, second, weights=weights).estimate == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_agrees_with_krippendorff(seed: int, level: Level) -> None:
    import krippendorff

    table = ratings(seed)
    expected = krippendorff.alpha(table, level_of_measurement=level)
    assert krippendorff_alpha(table, level=level).estimate == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_powered_means_agree_with_ppi_python(seed: int) -> None:
    import ppi_py

    rng = np.random.default_rng(seed)
    labels = (rng.random(900) < 0.7).astype(float)
    predictions = np.clip(0.6 * labels + rng.normal(0.2, 0.2, size=900), 0, 1)
    n = 60 + 30 * seed
    found = powered_mean(labels[:n], predictions[:n], predictions[n:])
    expected = ppi_py.ppi_mean_pointestimate(labels[:n], predictions[:n], predictions[n:])
    assert found.estimate == pytest.approx(float(expected[0]), abs=0.002)
    low, high = ppi_py.ppi_mean_ci(labels[:n], predictions[:n], predictions[n:], alpha=0.05)
    # Ours is the wider one: theirs is normal, ours holds for few labels too.
    assert found.low <= float(low[0]) + 0.002
    assert found.high >= float(high[0]) - 0.002
    assert found.high - found.low <= 1.5 * float(high[0] - low[0])
