"""Planning: which drop a number of samples shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.power import design_effect, detectable_drop


def test_the_textbook_drop() -> None:
    # (1.6449 + 0.8416)² · 0.3² / 0.05² = 222.6 samples, and z²/2 = 1.35 for the estimated deviation.
    assert detectable_drop(0.3, 224) == pytest.approx(0.05, abs=1e-4)
    assert detectable_drop(0.0, 3) == 0.0
    assert detectable_drop(0.3, 1) == math.inf


def test_a_drop_has_the_power_that_it_promises() -> None:
    n = 60
    shift = detectable_drop(0.3, n) / 0.3 * math.sqrt(n)
    power = stats.nct.sf(stats.t.ppf(0.95, n - 1), n - 1, shift)
    assert power == pytest.approx(0.8, abs=0.01)


@given(st.floats(0.0, 0.4), st.integers(20, 500), st.sampled_from([0.0, 0.5]))
def test_more_samples_never_show_less(sd: float, n: int, loss: float) -> None:
    assert detectable_drop(sd, n + 1, loss=loss) <= detectable_drop(sd, n, loss=loss)


def test_a_drop_of_answers_that_seldom_change_is_not_seen_for_free() -> None:
    # Six of sixty answers that lose half a point each are a drop of 0.05, and as many may be five by chance.
    assert detectable_drop(0.0, 60, alpha=0.01, loss=0.5) > 0.07


def test_more_tests_more_power_and_groups_need_larger_drops() -> None:
    plain = detectable_drop(0.3, 200)
    assert detectable_drop(0.3, 200, tests=8) > plain
    assert detectable_drop(0.3, 200, power=0.9) > plain
    assert detectable_drop(0.3, 200, loss=0.5) > plain
    assert detectable_drop(0.3, 600, group_size=5, correlation=0.5) == pytest.approx(plain, rel=0.01)
    assert design_effect(5, -0.2) == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sd": -0.1, "n": 50}, "sd"),
        ({"sd": np.nan, "n": 50}, "sd"),
        ({"sd": 0.3, "n": 0}, "n must be"),
        ({"sd": 0.3, "n": 50, "power": 1.0}, "power"),
        ({"sd": 0.3, "n": 50, "alpha": 0.6}, "alpha"),
        ({"sd": 0.3, "n": 50, "tests": 0}, "tests"),
        ({"sd": 0.3, "n": 50, "group_size": 0.5}, "group_size"),
    ],
)
def test_plans_that_make_no_sense_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        detectable_drop(**arguments)  # type: ignore[arg-type]
