"""Losses on these questions: beyond chance which of them succeed, and beyond the noise of their answers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.stats.losses import Change, lower_tail, p_values, row_means

Floats = NDArray[np.float64]


def change(now: Floats, then: Floats, **more: object) -> Change:
    now, then = (np.asarray(one, dtype=np.float64).reshape(len(one), -1) for one in (now, then))
    n = len(now)
    return Change(np.arange(n), now, then, np.zeros(n, dtype=np.bool_), **more)  # type: ignore[arg-type]


def fallen(differences: Floats) -> Change:
    """One answer each, before and now."""
    return change(np.asarray(differences) + 1.0, np.ones(len(differences)))


def p_of(*changes: Change, groups: NDArray[np.int64] | None = None) -> list[float]:
    return p_values(changes, groups=groups).tolist()


def test_few_changed_answers_have_the_exact_p_value_of_their_signs() -> None:
    values = np.array([-0.3, -0.2, -0.4, 0.1, -0.25, -0.5, 0.0, 0.0])
    live = values[values != 0.0]
    sums = np.array(list(itertools.product([1, -1], repeat=6))) @ np.abs(live)
    exact = float(np.mean(sums <= live.sum() + 1e-9))
    (found,) = p_of(fallen(values))
    assert found == pytest.approx(exact, rel=0.4)
    assert found >= exact


@pytest.mark.parametrize("lost", [3, 14])
def test_answers_that_are_all_lost_halve_the_p_value_each(lost: int) -> None:
    assert p_of(fallen(np.array([-1.0] * lost + [0.0] * 37))) == [pytest.approx(0.5**lost)]


def test_what_got_better_or_stayed_is_no_loss() -> None:
    assert p_of(fallen(np.zeros(50))) == [1.0]
    assert p_of(fallen(np.array([0.5] * 5 + [-0.1] * 5))) == [1.0]


def test_metrics_that_move_together_cost_no_more_than_one() -> None:
    one = fallen(np.array([-1.0] * 6 + [0.0] * 45))
    same = fallen(np.zeros(51))
    assert p_of(one)[0] == pytest.approx(1 / 64)
    assert p_of(one, same, same, same)[0] == pytest.approx(1 / 64)  # what did not change is no chance of an error
    assert p_of(one, one)[0] == pytest.approx(1 / 64)


def test_small_losses_in_every_metric_add_up() -> None:
    rng = np.random.default_rng(1)
    metrics = [fallen(np.where(rng.random(80) < 0.3, rng.normal(-0.12, 0.3, 80), 0.0).clip(-1, 0.0)) for _ in range(4)]
    alone = [p_of(one)[0] for one in metrics]
    assert max(p_of(*metrics)) < min(alone)


def test_a_lucky_answer_among_several_is_noise() -> None:
    # The baseline was lucky once with each of eight questions: no wonder that the newest answers are not.
    steady = change(np.zeros((8, 1)), np.ones((8, 5)))
    lucky = change(np.zeros((8, 1)), np.tile([0.0, 0.0, 1.0, 0.0, 0.0], (8, 1)))
    assert p_of(steady)[0] == pytest.approx(1 / 256)
    assert p_of(lucky)[0] == pytest.approx((5 / 6) ** 8)


@pytest.mark.heavy
def test_one_bad_answer_in_twenty_is_no_loss_however_many_answers_it_is_compared_with() -> None:
    """Nothing changed: each answer scores 1, or seldom 0. One is compared with five before, four with two."""
    rng = np.random.default_rng(5)
    found: dict[int, list[bool]] = {1: [], 4: []}
    for _ in range(300):
        scores = np.where(rng.random((30, 6)) < 0.05, 0.0, 1.0)
        for asked, seen in found.items():
            seen.append(p_of(change(scores[:, :asked], scores[:, asked:]))[0] <= 0.05)
    assert np.mean(found[1]) <= 0.07
    assert np.mean(found[4]) <= 0.07


def test_one_answer_given_several_times_can_only_change_sides() -> None:
    now, then = np.full((4, 4), 0.2), np.full((4, 3), 0.9)
    moved = change(now, then)
    fixed = replace(moved, alike=np.ones(4, dtype=np.bool_))
    assert sorted(set(fixed.ways(14)[0].round(9))) == pytest.approx([-0.7, 0.7])
    assert len(set(moved.ways(14)[0].round(9))) > 2
    assert p_of(fixed) == [pytest.approx(1 / 16)]


def test_an_answer_without_a_score_is_left_out() -> None:
    one = change(np.array([[1.0, np.nan]]), np.array([[0.5]]))
    assert one.values.tolist() == [0.5]
    assert sorted(set(one.ways(6)[0].tolist())) == [-0.5, 0.0, 0.5]
    assert np.isnan(row_means(np.array([[np.nan]]))[0])


def test_related_questions_are_one() -> None:
    values = np.repeat([-0.4, -0.3, -0.5, -0.2], 10)
    assert p_of(fallen(values))[0] < 1e-6
    assert p_of(fallen(values), groups=np.repeat(np.arange(4), 10))[0] == pytest.approx(1 / 16)


def test_a_loss_that_is_expected_is_none() -> None:
    values = np.array([-0.2] * 20)
    assert p_of(fallen(values))[0] < 1e-5
    assert p_of(replace(fallen(values), expected=-0.2)) == [1.0]


def part_of(whole: Change, rows: slice) -> Change:
    return replace(
        whole,
        units=whole.units[rows],
        now=whole.now[rows],
        then=whole.then[rows],
        alike=whole.alike[rows],
        part=True,
        whole=whole,
    )


def test_a_part_that_lost_everything_is_shown_although_it_is_small() -> None:
    rng = np.random.default_rng(7)
    values = np.where(rng.random(80) < 0.2, rng.normal(0.0, 0.2, 80), 0.0)
    values[:8] = -0.9
    whole = fallen(values.clip(-1.0, 0.0))
    found = p_of(whole, part_of(whole, slice(0, 8)), part_of(whole, slice(8, 16)))
    assert found[1] < 1e-4
    assert found[2] > 0.2


def test_the_answers_of_a_part_may_be_noise_where_the_others_have_none() -> None:
    now, then = np.ones((80, 4)), np.ones((80, 6))
    now[:8], then[:8] = (0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
    whole = change(now, then)
    lost = part_of(whole, slice(0, 8))
    assert p_of(whole, lost)[1] > 0.1
    once = replace(whole, now=row_means(now)[:, None], then=row_means(then)[:, None])
    assert p_of(once, part_of(once, slice(0, 8)))[1] < 0.01


@pytest.mark.parametrize("parts", [20, 400])
def test_thirty_answers_of_a_part_that_all_fall_are_shown_however_many_parts_there_are(parts: int) -> None:
    whole = fallen(np.array([-1.0] * 30 + [0.0] * 970))
    found = p_of(whole, *[part_of(whole, slice(0, 30))] * parts)
    assert max(found[1:]) < 1e-5


def test_parts_take_a_seventh_of_the_error_rate() -> None:
    whole = fallen(np.array([-1.0] * 6 + [0.0] * 45))
    assert p_of(whole, part_of(whole, slice(10, 20)))[0] == pytest.approx(7 / 6 / 64)


def test_the_tail_is_that_of_the_exact_distribution() -> None:
    rng = np.random.default_rng(3)
    ways = rng.normal(0.0, 0.2, (9, 4))
    sums = np.sort(np.array([sum(one) for one in itertools.product(*ways)]))
    for share in (1e-4, 1e-3, 0.01, 0.05):
        observed = sums[int(share * len(sums))]
        exact = float(np.mean(sums <= observed))
        assert lower_tail(ways, observed) == pytest.approx(exact, rel=0.3)
    assert lower_tail(ways, float(sums[0])) == pytest.approx(1 / 4**9)
    assert lower_tail(ways, 0.0) > 0.2
    assert lower_tail(np.zeros((5, 2)), 0.0) == 1.0


def test_a_hundred_thousand_questions_are_decided() -> None:
    rng = np.random.default_rng(11)
    values = np.where(rng.random(100_000) < 0.4, rng.normal(-0.01, 0.2, size=100_000), 0.0).clip(-1, 0)
    assert p_of(fallen(values))[0] < 1e-6


@pytest.mark.heavy
def test_unchanged_runs_are_failed_at_most_as_often_as_stated() -> None:
    rng = np.random.default_rng(9)
    failed = 0
    for _ in range(300):
        quality = rng.random((30, 1))
        scores = [np.where(rng.random((30, 4)) < 0.5 + 0.45 * quality, 1.0, rng.random((30, 4))) for _ in range(2)]
        new = np.where(rng.random((30, 1)) < 0.4, scores[1], scores[0])
        found = p_of(*(change(new[:, j], scores[0][:, j]) for j in range(4)))
        failed += min(found) <= 0.05
    # Three standard errors above 5 %.
    assert failed <= 300 * 0.05 + 3 * (300 * 0.05 * 0.95) ** 0.5
