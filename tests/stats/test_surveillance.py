"""The surveillance of a mean over windows: false alarms, changes, and figures without noise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ragstone.stats.surveillance import Observed, chart_limit, run_length, surveil

YEAR = 365.25


def days(rng: np.random.Generator, means: list[float], n: int = 200) -> list[Observed]:
    found = []
    for mean in means:
        values = np.clip(rng.normal(mean, 0.25, n), -1.0, 2.0)
        found.append(Observed(float(values.mean()), n, float(values.var())))
    return found


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
    assert surveil(series, shift=0.05, rising=False, anchor=14, looks_per_alarm=YEAR) is None


def test_a_lasting_fall_is_found_and_dated_and_the_alarm_lasts() -> None:
    series = days(np.random.default_rng(3), [0.8] * 40 + [0.74] * 10)
    found = surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    alarms = [look.position for look in found.looks if look.alarm]
    assert alarms[0] in range(40, 44)
    assert alarms == list(range(alarms[0], 50))
    assert found.looks[-1].since in range(38, 42)
    assert found.looks[-1].level == pytest.approx(0.74, abs=0.02)


def test_an_alarm_ends_when_the_mean_is_back() -> None:
    series = days(np.random.default_rng(4), [0.8] * 30 + [0.7] * 5 + [0.8] * 10)
    found = surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert any(look.alarm for look in found.looks)
    assert not found.looks[-1].alarm


def test_a_rise_is_no_fall_and_a_fall_is_no_rise() -> None:
    series = days(np.random.default_rng(5), [0.5] * 28 + [0.7] * 5)
    falls = surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=YEAR)
    rises = surveil(series, shift=0.05, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert falls is not None
    assert rises is not None
    assert not any(look.alarm or look.jump for look in falls.looks)
    assert rises.looks[-1].alarm


def test_one_terrible_window_is_a_jump() -> None:
    series = days(np.random.default_rng(6), [0.8] * 30 + [0.5])
    found = surveil(series, shift=0.05, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert found.looks[-1].jump


def test_less_than_half_of_the_shift_is_no_alarm_however_many_there_are() -> None:
    series = [Observed(0.010, 1e6, 0.0099)] * 28 + [Observed(0.015, 1e6, 0.0148)] * 300
    found = surveil(series, shift=0.02, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert not any(look.alarm or look.jump for look in found.looks)


def test_a_rate_that_was_always_0_has_noise_too() -> None:
    series = [Observed(0.0, 200.0, 0.0)] * 28 + [Observed(0.005, 200.0, 0.005)]
    found = surveil(series, shift=0.05, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert not found.looks[-1].alarm
    series.append(Observed(0.2, 200.0, 0.16))
    found = surveil(series, shift=0.05, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert found.looks[-1].alarm


def test_a_figure_without_units_is_judged_by_what_its_windows_differ_by() -> None:
    rng = np.random.default_rng(7)
    series = [Observed(float(value), 0.0, 0.0) for value in rng.normal(1000, 50, 40)]
    found = surveil(series, shift=250.0, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert not any(look.alarm for look in found.looks)
    found = surveil([*series, Observed(500.0, 0.0, 0.0)], shift=250.0, rising=False, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert found.looks[-1].alarm


def test_windows_that_never_varied() -> None:
    series = [Observed(5.0, 0.0, 0.0)] * 40
    found = surveil(series, shift=1.0, rising=True, anchor=28, looks_per_alarm=YEAR)
    assert found is not None
    assert not found.looks[-1].alarm


def test_an_anchor_too_short_and_no_shift_are_refused() -> None:
    with pytest.raises(ValueError, match="anchor"):
        surveil([], shift=0.05, rising=True, anchor=4, looks_per_alarm=YEAR)
    with pytest.raises(ValueError, match="shift"):
        surveil([], shift=0.0, rising=True, anchor=5, looks_per_alarm=YEAR)


@pytest.mark.heavy
@pytest.mark.parametrize("differ", [0.0, 0.01])
def test_at_most_one_false_alarm_a_year_and_a_fall_of_5_points_is_found_in_4_days(differ: float) -> None:
    rng = np.random.default_rng(8)
    years, began, found_in_time = 150, 0, 0
    for _ in range(years):
        result = surveil(
            days(rng, list(rng.normal(0.8, differ, 28 + 365))),
            shift=0.05,
            rising=False,
            anchor=28,
            looks_per_alarm=YEAR,
        )
        assert result is not None
        states = [False, *(look.alarm or look.jump for look in result.looks)]
        began += sum(now and not before for before, now in pairwise(states))
        result = surveil(
            days(rng, [*rng.normal(0.8, differ, 33), *rng.normal(0.75, differ, 4)]),
            shift=0.05,
            rising=False,
            anchor=28,
            looks_per_alarm=YEAR,
        )
        assert result is not None
        found_in_time += any(look.alarm or look.jump for look in result.looks[5:])
    assert began / years <= 1.0
    assert found_in_time / years >= 0.8
