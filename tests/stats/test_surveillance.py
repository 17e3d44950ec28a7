"""The surveillance of a mean over windows: false alarms, changes, and figures without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ragstone.stats.surveillance import Look, Observed, chart_limit, run_length, surveil, surveil_line

YEAR = 365.25


def days(rng: np.random.Generator, means: list[float], n: int = 200) -> list[Observed]:
    found = []
    for mean in means:
        values = np.clip(rng.normal(mean, 0.25, n), -1.0, 2.0)
        found.append(Observed(float(values.mean()), n, float(values.var())))
    return found


def falls(series: list[Observed]) -> tuple[Look, ...]:
    return surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=YEAR)


def rises(series: list[Observed]) -> tuple[Look, ...]:
    return surveil(series, shift=0.05, rising=True, anchor=28, looks_per_alarm=YEAR)


def test_the_approximation_of_run_lengths_is_that_of_a_simulated_chart() -> None:
    rng = np.random.default_rng(1)
    lengths = []
    for _ in range(400):
        chart, steps = 0.0, 0
        while chart < 3.0:
            chart, steps = max(0.0, chart + rng.standard_normal() - 0.7), steps + 1
        lengths.append(steps)
    expected = float(run_length(np.array([0.7]), np.array([3.0]))[0])
    assert np.mean(lengths) == pytest.approx(expected, rel=0.2)


def test_a_limit_grows_with_the_looks_and_with_what_is_not_known() -> None:
    plain = chart_limit(1.0, 0.0, 1e6, YEAR)
    assert plain < chart_limit(1.0, 0.0, 1e6, 10 * YEAR)
    assert plain < chart_limit(1.0, 0.3, 1e6, YEAR)
    assert plain < chart_limit(1.0, 0.0, 9.0, YEAR)


def test_nothing_is_looked_at_before_the_anchor_is_complete() -> None:
    series = days(np.random.default_rng(2), [0.8] * 14)
    assert surveil(series, shift=0.05, rising=False, anchor=14, looks_per_alarm=YEAR) == ()


def test_a_lasting_fall_is_found_and_dated_and_the_alarm_lasts() -> None:
    series = days(np.random.default_rng(3), [0.8] * 40 + [0.74] * 10)
    found = falls(series)
    alarms = [look.position for look in found if look.alarm]
    assert alarms[0] in range(40, 44)
    assert alarms == list(range(alarms[0], 50))
    assert found[-1].since in range(38, 42)
    assert found[-1].level == pytest.approx(0.74, abs=0.02)


def test_an_alarm_ends_when_the_mean_is_back() -> None:
    series = days(np.random.default_rng(4), [0.8] * 30 + [0.7] * 5 + [0.8] * 10)
    found = falls(series)
    assert any(look.alarm for look in found)
    assert not found[-1].alarm


def test_a_rise_is_no_fall_and_a_fall_is_no_rise() -> None:
    series = days(np.random.default_rng(5), [0.5] * 28 + [0.7] * 5)
    assert not any(look.alarm for look in falls(series))
    assert rises(series)[-1].alarm


def test_one_terrible_window_is_an_alarm_at_once() -> None:
    series = days(np.random.default_rng(6), [0.8] * 30 + [0.5])
    found = falls(series)
    assert [look.alarm for look in found] == [False, False, True]


@pytest.mark.heavy
def test_less_than_half_of_the_shift_is_no_alarm_however_many_there_are() -> None:
    series = [Observed(0.010, 1e6, 0.0099)] * 28 + [Observed(0.015, 1e6, 0.0148)] * 300
    found = surveil(series, shift=0.02, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert not any(look.alarm for look in found)


def test_a_rate_that_was_always_0_has_noise_too() -> None:
    series = [Observed(0.0, 200.0, 0.0)] * 28 + [Observed(0.005, 200.0, 0.005)]
    assert not rises(series)[-1].alarm
    series.append(Observed(0.2, 200.0, 0.16))
    assert rises(series)[-1].alarm


def test_a_figure_without_units_is_judged_by_what_its_windows_differ_by() -> None:
    rng = np.random.default_rng(7)
    series = [Observed(float(value), 0.0, 0.0) for value in rng.normal(1000, 50, 40)]
    found = surveil(series, shift=250.0, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert not any(look.alarm for look in found)
    found = surveil([*series, Observed(500.0, 0.0, 0.0)], shift=250.0, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found[-1].alarm


def test_an_anchor_too_short_and_no_shift_are_refused() -> None:
    with pytest.raises(ValueError, match="anchor"):
        surveil([], shift=0.05, rising=True, anchor=4, looks_per_alarm=YEAR)
    with pytest.raises(ValueError, match="shift"):
        surveil([], shift=0.0, rising=True, anchor=5, looks_per_alarm=YEAR)


def week(rng: np.random.Generator, count: int, *, weekend: float, loss: float = 0.0, at: int = 0) -> list[Observed]:
    """Days that are lower by `weekend` on the last two of seven, and by `loss` from the day `at` on."""
    means = [0.8 - weekend * (day % 7 >= 5) - loss * (day >= at) for day in range(count)]
    return [replace(one, season=day % 7) for day, one in enumerate(days(rng, means))]


def test_a_day_is_compared_with_the_same_day_of_the_week() -> None:
    series = week(np.random.default_rng(9), 240, weekend=0.1, loss=0.06, at=236)
    found = falls(series)
    assert not any(look.alarm for look in found[:200])
    assert found[-1].alarm
    # Without knowing what day it is, half of the loss drowns in what weekends differ by.
    blind = falls([replace(one, season=0) for one in series])
    assert found[-1].limit < blind[-1].limit


def test_days_that_only_came_to_differ_by_chance_stay_as_they_are() -> None:
    rng = np.random.default_rng(10)
    plain = days(rng, [0.8] * 60)
    named = [replace(one, season=day % 7) for day, one in enumerate(plain)]
    charts, others = ([look.chart for look in falls(one)] for one in (plain, named))
    assert charts == pytest.approx(others, abs=1.0)


def test_a_season_that_the_anchor_lacks_is_compared_with_its_mean() -> None:
    series = [one for one in week(np.random.default_rng(11), 60, weekend=0.0) if one.season < 5 or one.n == 0.0]
    new = [*series, replace(series[-1], season=6), replace(series[-1], season=6)]
    found = surveil(new, shift=0.05, rising=False, anchor=20, looks_per_alarm=YEAR)
    assert not found[-1].alarm


def test_what_lasts_for_days_is_more_noise() -> None:
    rng, state, lasting = np.random.default_rng(12), 0.0, []
    for _ in range(120):
        state = 0.7 * state + 0.02 * float(rng.standard_normal())
        lasting.append(0.8 + state)
    shuffled = list(lasting)
    rng.shuffle(shuffled)
    limits = [falls(days(np.random.default_rng(13), each))[-1].limit for each in (lasting, shuffled)]
    assert limits[0] > limits[1]


def test_an_alarm_that_lasts_ends_once() -> None:
    swing = [0.8 - 0.04 * math.sin(2.0 * math.pi * day / 365.0) for day in range(400)]
    found = falls(days(np.random.default_rng(14), swing))
    assert sum(now.alarm and not before.alarm for before, now in pairwise(found)) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("differ", [0.0, 0.01])
def test_at_most_one_false_alarm_a_year_and_a_fall_of_5_points_is_found_in_4_days(differ: float) -> None:
    rng = np.random.default_rng(8)
    years, began, found_in_time = 150, 0, 0
    for _ in range(years):
        means = list(rng.normal(0.8, differ, 28 + 365))
        states = [look.alarm for look in falls(days(rng, means))]
        began += sum(now and not before for before, now in pairwise([False, *states]))
        means = [*rng.normal(0.8, differ, 28 + 180), *rng.normal(0.75, differ, 4)]
        found_in_time += any(look.alarm for look in falls(days(rng, means))[180:])
    assert began / years <= 1.0
    assert found_in_time / years >= 0.8


@pytest.mark.heavy
@pytest.mark.parametrize(("weekend", "lasting"), [(0.0, 0.0), (0.02, 0.0), (0.0, 0.7)])
def test_eleven_figures_together_have_about_one_false_alarm_a_year(weekend: float, lasting: float) -> None:
    rng = np.random.default_rng(15)
    years, began = 80, 0
    for _ in range(years):
        state, series = 0.0, week(rng, 28 + 365, weekend=weekend)
        for day, one in enumerate(series):
            state = lasting * state + math.sqrt(1.0 - lasting**2) * float(rng.standard_normal())
            series[day] = replace(one, value=one.value + (0.01 * state if lasting else 0.0))
        looks = surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=11 * YEAR)
        began += sum(now and not before for before, now in pairwise([False, *(look.alarm for look in looks)]))
    assert 11 * began / years <= 1.8  # with so few years, a standard error is about a third of an alarm


def beyond(series: list[Observed], *, line: float = 0.5, rising: bool = False) -> list[bool]:
    looks = surveil_line(series, line=line, shift=0.05, rising=rising, share=True, looks_per_alarm=17 * YEAR)
    return [look.alarm for look in looks]


def test_what_is_far_beyond_a_line_is_an_alarm_in_the_first_window() -> None:
    assert beyond([Observed(0.0, 200, 0.0)]) == [True]
    assert beyond([Observed(1.0, 200, 0.0)], rising=True) == [True]
    assert beyond([Observed(1.0, 200, 0.0)]) == [False]
    assert beyond([Observed(1.0, 10, 0.0)] * 3, rising=True) == [False, False, True]


def test_what_is_a_little_beyond_a_line_is_found_in_time_and_what_is_better_never() -> None:
    rng = np.random.default_rng(7)
    found = beyond(days(rng, [0.45] * 60))
    assert not any(found[:2])
    assert all(found[-10:])
    assert not any(beyond(days(rng, [0.55] * 400)))


@pytest.mark.heavy
def test_at_a_line_false_alarms_are_as_rare_as_stated() -> None:
    rng = np.random.default_rng(8)
    began = 0
    for _ in range(25):
        shares = rng.binomial(200, np.clip(rng.normal(0.5, 0.02, 365), 0, 1)) / 200
        states = beyond([Observed(float(share), 200, float(share * (1 - share))) for share in shares])
        began += sum(now and not before for before, now in pairwise([False, *states]))
    assert began <= 4  # 25 / 17 are expected


def test_an_alarm_at_a_line_ends_when_the_mean_is_back() -> None:
    series = days(np.random.default_rng(9), [0.1] * 5 + [0.8] * 3)
    assert beyond(series) == [True] * 5 + [False] * 3


def test_where_nothing_may_happen_one_case_is_an_alarm_and_ends_with_its_window() -> None:
    rates = [0.0, 0.005, 0.0, 0.0]
    assert beyond([Observed(rate, 200, 0.005) for rate in rates], line=0.0, rising=True) == [False, True, False, False]
