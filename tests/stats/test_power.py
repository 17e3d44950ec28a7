"""Planning: how many samples, which drop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.power import design_effect, detectable_drop, samples_for_drop


def test_the_textbook_number_of_samples() -> None:
    # (1.6449 + 0.8416)² · 0.3² / 0.05² = 222.6, and z²/2 = 1.35 for the estimated deviation.
    assert samples_for_drop(0.3, 0.05) == 224


def test_the_number_of_samples_has_the_power_that_it_promises() -> None:
    n = samples_for_drop(0.3, 0.1)
    shift = 0.1 / 0.3 * math.sqrt(n)
    power = stats.nct.sf(stats.t.ppf(0.95, n - 1), n - 1, shift)
    assert power == pytest.approx(0.8, abs=0.01)


@given(st.floats(0.05, 0.6), st.floats(0.01, 0.3), st.integers(1, 40))
def test_planning_and_its_inverse_agree(sd: float, drop: float, tests: int) -> None:
    n = samples_for_drop(sd, drop, tests=tests)
    assert detectable_drop(sd, n, tests=tests) <= drop * (1 + 1e-9)
    if n > 10:
        assert detectable_drop(sd, n - 1, tests=tests) >= drop * (1 - 1e-9)


@given(st.floats(0.0, 0.4), st.floats(0.01, 0.2), st.floats(0.0, 0.1))
def test_the_two_agree_where_a_drop_brings_its_own_variance(sd: float, drop: float, allowed: float) -> None:
    n = samples_for_drop(sd, drop, allowed=allowed, loss=0.5)
    assert n >= samples_for_drop(sd, drop)
    assert detectable_drop(sd, n, allowed=allowed, loss=0.5) <= drop * (1 + 1e-9)
    if n > 10:
        assert detectable_drop(sd, n - 1, allowed=allowed, loss=0.5) >= drop * (1 - 1e-9)


def test_a_drop_of_answers_that_seldom_change_is_not_seen_for_free() -> None:
    # Six of sixty answers that lose half a point each are a drop of 0.05, and as many may be five by chance.
    assert detectable_drop(0.0, 60, alpha=0.01, loss=0.5) > 0.07


def test_more_tests_smaller_drops_and_groups_need_more_samples() -> None:
    plain = samples_for_drop(0.3, 0.05)
    assert samples_for_drop(0.3, 0.05, tests=8) > plain
    assert samples_for_drop(0.3, 0.02) > plain
    assert samples_for_drop(0.3, 0.05, power=0.9) > plain
    assert samples_for_drop(0.3, 0.05, group_size=5, correlation=0.5) == pytest.approx(3 * plain, abs=3)
    assert design_effect(5, -0.2) == 1.0


def test_scores_that_never_vary_need_one_sample_and_hide_no_drop() -> None:
    assert samples_for_drop(0.0, 0.05) == 1
    assert detectable_drop(0.0, 3) == 0.0


def test_too_few_samples_can_show_no_drop_at_all() -> None:
    assert detectable_drop(0.3, 1) == math.inf


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sd": 0.3, "drop": 0.0}, "drop"),
        ({"sd": -0.1, "drop": 0.1}, "sd"),
        ({"sd": np.nan, "drop": 0.1}, "sd"),
        ({"sd": 0.3, "drop": 0.1, "power": 1.0}, "power"),
        ({"sd": 0.3, "drop": 0.1, "alpha": 0.6}, "alpha"),
        ({"sd": 0.3, "drop": 0.1, "tests": 0}, "tests"),
        ({"sd": 0.3, "drop": 0.1, "group_size": 0.5}, "group_size"),
    ],
)
def test_plans_that_make_no_sense_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        samples_for_drop(**arguments)


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="n must be"):
        detectable_drop(0.3, 0)
