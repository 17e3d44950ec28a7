from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats.intervals import student_interval


def test_the_interval_is_that_of_scipy() -> None:
    values = np.array([3.0, 4.5, 1.2, 8.8, 2.0])
    found = student_interval(values, confidence=0.9)
    low, high = stats.t.interval(0.9, 4, loc=values.mean(), scale=stats.sem(values))
    assert (found.estimate, found.low, found.high) == pytest.approx((values.mean(), low, high))


def test_one_value_bounds_nothing() -> None:
    found = student_interval(np.array([7.0]))
    assert (found.estimate, found.low, found.high) == (7.0, -math.inf, math.inf)


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, 1.0]])
def test_what_has_no_mean_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        student_interval(np.array(values))


def test_a_false_fail_is_no_more_frequent_than_stated_for_long_tailed_values() -> None:
    random = np.random.default_rng(1)
    draws = random.lognormal(0.0, 1.0, size=(2000, 40))
    too_high = sum(student_interval(draw, confidence=0.95).low > math.exp(0.5) for draw in draws)
    assert too_high / len(draws) <= 0.025
