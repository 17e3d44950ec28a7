"""What a judge says of labelled cases, and the measures of its agreement with people."""

from __future__ import annotations

import math

import judge_opinions as measures
import numpy as np
import pytest
from scipy import stats


def test_measures_are_those_of_scipy_and_by_their_formulas() -> None:
    dice = np.random.default_rng(3)
    a, b = dice.random(40).round(1), dice.random(40).round(1)
    assert measures.pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0])
    assert math.isnan(measures.pearson(np.ones(5), np.arange(5.0)))
    said, true = np.array([1.0, 1.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    assert measures.balanced_accuracy(said, true) == pytest.approx((2 / 3 + 1 / 2) / 2)
    labels = np.array([0.0, 1.0] * 50)
    assert measures.calibration_error(np.full(100, 0.5), labels) == pytest.approx(0.0)
    assert measures.calibration_error(np.ones(100), labels) == pytest.approx(0.5)
