from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.stats.drift import (
    BEFORE,
    MIN_BEFORE,
    RECOVERED,
    Series,
    Step,
    change_points,
    mean_series,
    noise_of,
    recovery,
    step_between,
    steps,
)

Floats = NDArray[np.float64]


def draw(runs: int, n: int, *, loss: float = 0.0, seed: int = 0, renewed: float = 0.4) -> Floats:
    """`runs` observations of n units; a share is drawn anew each time, and the mean falls by `loss` in each."""
    rng = np.random.default_rng(seed)
    values = rng.beta(8, 2, size=n)
    bad = np.zeros(n, dtype=bool)
    found = []
    for _ in range(runs):
        found.append(values)
        anew = rng.random(n) < renewed
        bad |= anew & (rng.random(n) < loss / renewed / 0.48)
        values = np.where(anew, rng.beta(8, 2, size=n) * np.where(bad, 0.4, 1.0), values)
    return np.array(found)


def series(values: Floats, *, groups: NDArray[np.int64] | None = None) -> Series:
    return Series(values, np.arange(len(values)), np.ones(len(values), dtype=bool), groups)


def dropped(values: Floats, at: int, size: float = 0.5, share: float = 0.2) -> Floats:
    """`values` whose first units lose `size` from run `at` on."""
    lower = values.copy()
    lower[at:, : round(share * values.shape[1])] -= size
    return np.clip(lower, 0.0, 1.0)


def alarms(values: Floats, *, loss: float = 0.05, columns: int = 5, allowed: float = 0.0) -> list[int]:
    def shown(run: int) -> bool:
        now = series(values[: run + 1])
        found = steps(now, noise_of(now)).values()
        return any(one.may_alarm and one.shows(loss, columns=columns, allowed=allowed) for one in found)

    return [run for run in range(1, len(values)) if shown(run)]


def last_step(values: Floats, **more: NDArray[np.int64]) -> Step:
    now = series(values, **more)
    found = step_between(now, noise_of(now), np.arange(len(values) - 1), np.array([len(values) - 1]))
    assert found is not None
    return found


@pytest.mark.heavy
def test_where_nothing_changes_hardly_any_look_alarms() -> None:
    assert sum(len(alarms(draw(30, 60, seed=seed))) for seed in range(20)) <= 2


def test_a_lasting_loss_is_found_and_the_first_run_after_it_named() -> None:
    within, named = [], []
    for seed in range(20):
        values = dropped(draw(25, 80, seed=seed), 20)
        found = alarms(values)
        within.append(bool(found) and 20 <= found[0] < 25)
        now = series(values)
        named.append(abs(int(np.argmax(change_points(now, noise_of(now)))) - 20) <= 1)
    assert np.mean(within) >= 0.8
    assert np.mean(named) >= 0.9


@pytest.mark.heavy
@pytest.mark.parametrize(("n", "runs", "enough"), [(200, 21, 0.8), (60, 31, 0.6)])
def test_half_a_point_lost_a_merge_is_found(n: int, runs: int, enough: float) -> None:
    found = [bool(alarms(draw(runs, n, loss=0.005, seed=seed), columns=1)) for seed in range(10)]
    assert np.mean(found) >= enough


def test_the_noise_is_known_from_the_series_whatever_share_of_the_answers_is_new() -> None:
    for renewed in (0.1, 0.4, 1.0):
        z = [last_step(draw(20, 100, seed=seed, renewed=renewed)).noise for seed in range(100)]
        assert 0.8 <= np.std(z) <= 1.25


def test_a_reshuffle_of_which_units_succeed_is_no_loss() -> None:
    rng = np.random.default_rng(3)
    values = np.repeat(np.repeat([0.0, 1.0], 50)[None], 12, axis=0)
    values[-1] = rng.permutation(values[-1])
    found = last_step(values)
    assert not found.shows(0.0, columns=1)


def test_six_units_that_lost_and_none_that_won_are_shown_where_nothing_ever_changed_and_five_are_not() -> None:
    values = np.ones((12, 51))
    for lost, shown in ((6, True), (5, False)):
        now = values.copy()
        now[-1, :lost] = 0.0
        assert last_step(now).shows(0.05, columns=5) is shown


def test_a_loss_below_half_of_the_one_to_detect_never_alarms_however_well_it_is_shown() -> None:
    values = dropped(draw(30, 400, seed=1), 20, share=0.1)
    assert alarms(values, loss=0.02)
    assert not alarms(values, loss=0.15)


def test_a_loss_that_was_accepted_or_came_too_early_shows_none() -> None:
    values = dropped(draw(25, 80, seed=2), 20)
    assert alarms(values)
    assert not alarms(values, allowed=0.1)
    assert not alarms(dropped(draw(6, 80, seed=2), MIN_BEFORE - 1))


def test_units_that_came_later_or_have_no_score_are_left_out_and_gaps_are_filled() -> None:
    values = draw(12, 100, seed=4)
    holes = values.copy()
    holes[:11, :20] = np.nan
    holes[-1, 20:30] = np.nan
    found = last_step(holes)
    assert found.n == 70
    assert found.change == pytest.approx(last_step(values[:, 30:]).change, abs=0.02)
    gap = values.copy()
    gap[3, 5] = np.nan
    assert last_step(gap).n == 100


def test_units_of_a_group_count_as_one() -> None:
    one = dropped(draw(12, 40, seed=5), 11)
    copied = np.repeat(one, 5, axis=1)
    alone = last_step(one)
    grouped = last_step(copied, groups=np.repeat(np.arange(40), 5))
    assert grouped.change == pytest.approx(alone.change, abs=0.02)
    assert grouped.spread == pytest.approx(alone.spread, rel=0.05)
    assert last_step(copied).spread > 1.5 * grouped.spread


def test_the_newest_runs_are_compared_with_those_before_them_and_with_the_first_ones() -> None:
    now = series(draw(40, 30))
    found = steps(now, noise_of(now))
    assert {runs for runs, _ in found} == {1, 2, 4, 8}
    assert {step.before for step in found.values()} == {BEFORE}
    few = series(draw(3, 30))
    assert {runs for runs, _ in steps(few, noise_of(few))} == {1}


def test_the_mean_of_several_columns_counts_each_of_them_the_same() -> None:
    one, other = draw(6, 40, seed=1), draw(6, 40, seed=2)
    other[:, 20:] = np.nan  # a metric that applies to half of the samples
    both = mean_series([series(one), series(other)])
    assert both.scores.mean(axis=1) == pytest.approx((one.mean(axis=1) + other[:, :20].mean(axis=1)) / 2.0)


def test_a_recovery_is_shown_by_the_runs_since_and_a_loss_that_lasts_shows_none() -> None:
    over: list[tuple[bool, int]] = []
    lasts: list[tuple[bool, int]] = []
    for seed in range(20):
        lower = dropped(draw(28, 80, seed=seed), 20)
        healed = lower.copy()
        healed[24:] = draw(28, 80, seed=seed)[24:]
        for values, found in ((healed, over), (lower, lasts)):
            now = series(values)
            evidence, first = _recovery(now)
            assert first is None or evidence >= RECOVERED
            found.append((first is not None, first or 0))
    assert np.mean([shown for shown, _ in over]) >= 0.9
    assert np.mean([abs(first - 24) <= 1 for shown, first in over if shown]) >= 0.8
    assert np.mean([shown for shown, _ in lasts]) <= 0.05


def _recovery(now: Series) -> tuple[float, int | None]:
    before = Series(now.scores, now.places, np.arange(len(now)) < 20)
    return recovery(before, noise_of(before), 20, 0.1)
