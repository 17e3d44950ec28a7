"""The gap between two means, release after release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.stats.estimate import Estimate
from ragstone.stats.gap import ALPHA, Gap, gap, power, released, spent
from ragstone.stats.intervals import mean_interval


def mean(estimate: float, half: float = 0.05, n: int = 100) -> Estimate:
    return Estimate(estimate, estimate - half, estimate + half, 0.95, "", n)


def test_the_levels_of_any_number_of_releases_add_up_to_less_than_the_whole() -> None:
    assert math.isclose(sum(map(spent, range(1, 1_000))), ALPHA * (1 - 1 / 1_000))


def test_the_distances_of_both_means_add_up_as_squares() -> None:
    found = gap((mean(0.9, 0.03), mean(0.8, 0.04)), 1)
    assert found.estimate == pytest.approx(0.1)
    # 2.5 % on each side at the first release: half as likely as both limits of a 95 % interval together
    assert (found.high - found.estimate) / 0.05 == pytest.approx(2.2414 / 1.96, rel=0.01)
    assert found.low == pytest.approx(2 * found.estimate - found.high)


def test_later_releases_have_wider_intervals_and_the_same_limit() -> None:
    first, later = (gap((mean(0.9), mean(0.8)), release) for release in (1, 50))
    assert later.low < first.low < first.high < later.high
    assert later.limit == first.limit


def test_growth_is_since_the_first_release() -> None:
    found = gap((mean(0.95), mean(0.8)), 2, (mean(0.9), mean(0.85)))
    assert found.estimate == pytest.approx(0.1)
    assert found.limit > gap((mean(0.95), mean(0.8)), 2).limit


def test_where_less_is_better_the_sealed_mean_is_worse_if_it_is_higher() -> None:
    assert gap((mean(0.1), mean(0.3)), 1, lower_is_better=True).estimate == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("estimate", "before", "alarm"), [(0.06, False, True), (0.04, False, False), (0.04, True, True)]
)
def test_an_alarm_lasts_until_the_gap_is_below_half_of_its_limit(estimate: float, before: bool, alarm: bool) -> None:
    assert Gap(estimate, -1, 1, 0.05).alarms(0.02, before=before) is alarm
    assert Gap(estimate, -1, 1, 0.001).alarms(0.05, before=before) is alarm


@given(st.lists(st.floats(0, 1), min_size=20, max_size=60))
def test_a_released_mean_is_rounded_and_its_distances_are_never_shorter(scores: list[float]) -> None:
    found = mean_interval(np.array(scores))
    shown = released(found)
    assert shown.estimate == round(shown.estimate, 2)
    assert abs(shown.estimate - found.estimate) <= 0.005 + 1e-9
    assert 0.0 <= shown.low <= shown.estimate <= shown.high <= 1.0
    for mine, theirs, end in (
        (shown.estimate - shown.low, found.estimate - found.low, shown.low),
        (shown.high - shown.estimate, found.high - found.estimate, shown.high),
    ):
        assert mine >= theirs - 1e-6 or end in (0.0, 1.0)
        assert mine <= theirs + 0.001 + 1e-6


@pytest.mark.parametrize(("seen", "sealed"), [(30, 20), (160, 40), (250, 250)])
@pytest.mark.parametrize("kind", ["binary", "near the top", "spread"])
def test_the_interval_holds_with_bounded_scores(seen: int, sealed: int, kind: str) -> None:
    """Both sets are drawn from one, so the gap is 0: at the first release the level is half of ALPHA."""
    rng = np.random.default_rng(5)

    def draw(n: int) -> Estimate:
        if kind == "binary":
            scores = (rng.random(n) < 0.85).astype(float)
        elif kind == "spread":
            scores = rng.beta(1.2, 0.8, n)
        else:
            scores = np.where(rng.random(n) < 0.8, 1.0, rng.random(n))
        return mean_interval(scores)

    found = [gap((draw(seen), released(draw(sealed))), 1) for _ in range(300)]
    assert np.mean([one.low <= 0.0 <= one.high for one in found]) >= 0.95
    assert np.mean([one.estimate > one.limit for one in found]) <= 0.09


def test_power_grows_with_both_sets_and_is_higher_if_they_were_drawn_at_random() -> None:
    assert power(500, 500, 0.05, sd=0.3, drawn=True) == pytest.approx(0.84, abs=0.01)
    assert power(800, 200, 0.05, sd=0.3, drawn=True) < power(500, 500, 0.05, sd=0.3, drawn=True)
    assert power(500, 500, 0.05, sd=0.3, drawn=False) < power(500, 500, 0.05, sd=0.3, drawn=True)
