"""Sign flips: exact sums, exact ranks, the same on every machine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ragstone.stats.signflip import MAX_BLOCKS, TAIL, flipped_sums, on_grid, step_down, upper_ranks


def test_few_rows_are_enumerated_in_full() -> None:
    rows = on_grid(np.array([[0.5, -0.1], [0.25, 0.3], [0.0, 0.0], [-1.0, 0.2]]))
    sums = flipped_sums(rows, draws=4096, seed=0)
    live = rows[[0, 1, 3]]
    expected = sorted(tuple(np.array(signs) @ live) for signs in itertools.product([1, -1], repeat=3))
    assert sorted(map(tuple, sums)) == expected
    assert tuple(sums[0]) == tuple(live.sum(axis=0))


def test_many_rows_are_drawn_from_the_seed_and_begin_unflipped() -> None:
    rows = on_grid(np.random.default_rng(1).normal(size=(50, 3)))
    first, again = (flipped_sums(rows, draws=600, seed=7) for _ in range(2))
    other = flipped_sums(rows, draws=600, seed=8)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (600, 3)
    assert np.array_equal(first[0], rows.sum(axis=0))


def test_values_on_the_grid_have_sums_that_do_not_depend_on_their_order() -> None:
    rng = np.random.default_rng(2)
    values = on_grid(rng.uniform(-1, 1, size=100_000))
    totals = {float(rng.permutation(values).sum()) for _ in range(5)}
    assert len(totals) == 1
    assert np.array_equal(on_grid(values), values)


def test_columns_are_flipped_together() -> None:
    column = on_grid(np.random.default_rng(3).normal(size=(40, 1)))
    sums = flipped_sums(np.hstack([column, -column]), draws=200, seed=0)
    assert np.array_equal(sums[:, 0], -sums[:, 1])


def test_more_rows_than_blocks_keep_the_spread_of_the_flips() -> None:
    rows = on_grid(np.random.default_rng(4).normal(size=(4 * MAX_BLOCKS, 1)) / 4)
    sums = flipped_sums(rows, draws=2000, seed=0)
    assert sums[0, 0] == rows.sum()
    assert sums[1:, 0].std() == pytest.approx(float(np.sqrt(np.sum(rows**2))), rel=0.1)


def test_ranks_are_exact_in_the_tail_and_in_the_first_row() -> None:
    sums = np.random.default_rng(5).integers(0, 12, size=(400, 3)).astype(np.float64)
    ranks = upper_ranks(sums)
    exact = np.array([[np.mean(sums[:, j] >= value) for j, value in enumerate(row)] for row in sums])
    assert ranks[0] == pytest.approx(exact[0])
    tail = exact <= TAIL
    assert ranks[tail] == pytest.approx(exact[tail])
    assert np.all(ranks[1:][~tail[1:]] == 1.0)


def test_the_adjustment_steps_down_and_never_falls_below_the_marginal_p_value() -> None:
    rng = np.random.default_rng(3)
    null = rng.random((5000, 5))
    p = np.array([0.2, 0.001, 0.04, 0.012, 0.9])
    adjusted = step_down(p, null, np.ones(5))
    order = np.argsort(p)
    assert np.all(np.diff(adjusted[order]) >= 0)
    assert np.all(adjusted >= p)
    assert adjusted[1] == pytest.approx(1 - (1 - 0.001) ** 5, abs=0.002)


def test_a_heavier_hypothesis_gets_more_of_alpha() -> None:
    null = np.random.default_rng(4).random((20_000, 2))
    p = np.array([0.03, 0.5])
    light = step_down(p, null, np.array([0.2, 1.0]))[0]
    heavy = step_down(p, null, np.array([1.0, 0.2]))[0]
    assert heavy < 0.05 < light
