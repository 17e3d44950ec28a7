from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.stats.drift import FIRST, Loss, find_losses

SHIFT = np.full(4, 0.05)


def series(runs: int, n: int, *, loss: float = 0.0, seed: int = 0, renewed: float = 0.4) -> NDArray[np.float64]:
    """`runs` observations of n units, four columns; a share is drawn anew each time, and the mean falls by `loss`."""
    rng = np.random.default_rng(seed)
    values = rng.beta(8, 2, size=(n, 4))
    bad = np.zeros(n, dtype=bool)
    found = []
    for _ in range(runs):
        found.append(values)
        anew = rng.random(n) < renewed
        bad |= anew & (rng.random(n) < loss / renewed / 0.48)
        fresh = rng.beta(8, 2, size=(n, 4)) * np.where(bad, 0.4, 1.0)[:, None]
        values = np.where(anew[:, None], fresh, values)
    return np.array(found)


def alarms(values: NDArray[np.float64], **more: object) -> list[int]:
    return [
        run
        for run in range(1, len(values))
        if any(loss.found for loss in find_losses(values[: run + 1], shift=SHIFT, **more))  # type: ignore[arg-type]
    ]


def only(losses: tuple[Loss, ...], column: int | None) -> Loss:
    return next(loss for loss in losses if loss.column == column)


def test_where_nothing_changes_hardly_any_look_alarms() -> None:
    # At one alarm in 1,000 looks 1.2 are expected here, and they come in clusters.
    assert sum(len(alarms(series(30, 60, seed=seed))) for seed in range(40)) <= 6


@pytest.mark.parametrize(("n", "runs", "enough"), [(200, 11, 0.85), (60, 17, 0.8)])
def test_half_a_point_lost_a_merge_is_found_before_5_points_are_lost_or_8_of_few_samples(
    n: int, runs: int, enough: float
) -> None:
    found = [bool(alarms(series(runs, n, loss=0.005, seed=seed))) for seed in range(20)]
    assert np.mean(found) >= enough


def test_a_loss_below_half_of_the_shift_never_alarms_however_well_it_is_shown() -> None:
    values = series(20, 400, loss=0.001, seed=1)
    losses = find_losses(values, shift=np.full(4, 0.1))
    shown = only(losses, None)
    assert -0.05 < shown.change < -0.01
    assert shown.p_value < 0.001
    assert not shown.found


def test_a_loss_that_was_accepted_does_not_count() -> None:
    values = series(25, 200, loss=0.005, seed=2)
    lost = only(find_losses(values, shift=SHIFT), None)
    spared = only(find_losses(values, shift=SHIFT, allowed=np.full(4, -lost.change)), None)
    assert lost.found
    assert not spared.found
    assert spared.change == lost.change
    assert spared.excess == pytest.approx(0.0, abs=1e-9)


def test_the_first_run_after_a_broken_one_was_reverted_is_as_if_it_had_never_been() -> None:
    values = series(20, 100, seed=3)
    broken = values.copy()
    broken[10:19] *= 0.5
    sound = np.array([*[True] * 10, *[False] * 9, True])
    assert any(loss.found for loss in find_losses(broken[:19], shift=SHIFT, sound=sound[:19]))
    assert not any(loss.found for loss in find_losses(broken, shift=SHIFT, sound=sound))


def test_units_that_came_later_or_have_no_score_are_left_out() -> None:
    values = series(12, 100, loss=0.02, seed=4)
    holes = values.copy()
    holes[:10, :20] = np.nan
    holes[-1, 20:30, 1] = np.nan
    found = find_losses(holes, shift=SHIFT)
    assert [only(found, column).n for column in (0, 1, None)] == [80, 70, 80]
    same = find_losses(values[:, 20:], shift=SHIFT)
    assert only(found, 0).change == pytest.approx(only(same, 0).change)


def test_units_of_a_group_count_as_one() -> None:
    one = series(12, 40, loss=0.012, seed=5)
    copied = np.repeat(one, 5, axis=1)
    alone = only(find_losses(one, shift=SHIFT), None)
    grouped = only(find_losses(copied, shift=SHIFT, groups=np.repeat(np.arange(40), 5)), None)
    split = only(find_losses(copied, shift=SHIFT), None)
    assert grouped.p_value == pytest.approx(alone.p_value, rel=1e-6)
    assert split.p_value < alone.p_value


def test_answers_that_never_change_show_nothing_and_a_single_one_proves_nothing() -> None:
    values = np.repeat(series(1, 60, seed=6), 12, axis=0)
    assert all(loss.change == 0.0 and not loss.found for loss in find_losses(values, shift=SHIFT))
    values[-1, 0] = 0.0
    assert not any(loss.found for loss in find_losses(values, shift=SHIFT))


def test_the_order_of_units_and_of_columns_does_not_matter() -> None:
    values = series(12, 50, loss=0.01, seed=7)
    here = find_losses(values, shift=SHIFT)
    there = find_losses(values[:, ::-1, ::-1], shift=SHIFT)
    for column in range(4):
        assert only(here, column).p_value == pytest.approx(only(there, 3 - column).p_value)


def test_the_anchor_is_an_average_of_a_third_of_the_runs_at_most() -> None:
    values = series(60, 30)
    firsts = [find_losses(values[:runs], shift=SHIFT)[0].first for runs in (2, 3, 6, 12, 60)]
    assert firsts == [1, 1, 2, 4, FIRST]


def test_one_column_has_no_mean_over_columns() -> None:
    (found,) = find_losses(series(8, 30)[:, :, :1], shift=SHIFT[:1])
    assert found.column == 0


@pytest.mark.parametrize("runs", [0, 1])
def test_fewer_than_two_observations_are_refused(runs: int) -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        find_losses(series(2, 5)[:runs], shift=SHIFT)
