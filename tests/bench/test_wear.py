"""The benchmark of chosen versions, on a few of them: the gain that it measures, and the one that reports state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import wear

from ragstone.history.wear import TYPICAL_SD
from ragstone.stats.best_of import expected_maximum


@pytest.mark.parametrize(("n", "gain"), [(60, 0.046), (200, 0.025)])
def test_the_best_of_66_versions_gains_what_is_said(n: int, gain: float) -> None:
    found, by_history = wear.simulated(n, 66, repeats=150)
    assert found == pytest.approx(gain, abs=0.003)
    assert np.median(by_history) == pytest.approx(found, abs=0.004)
    assert expected_maximum(66) * TYPICAL_SD / math.sqrt(n) == pytest.approx(gain, abs=0.002)
