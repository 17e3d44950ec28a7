from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.stats.steps import LEVEL, Series, mean_series, recovered_since

Floats = NDArray[np.float64]


def draw(runs: int, *, lost: range = range(0), loss: float = 0.14, n: int = 80, seed: int = 1) -> Series:
    """Right or wrong answers, 40 % of them drawn anew in each run; the mean is lower by `loss` in the runs `lost`."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(6.0, 0.6, size=n)
    worse = rng.choice(n, round(loss * n / 0.7), replace=False)
    answers = rng.random(n)
    scores = []
    for run in range(runs):
        answers = np.where(rng.random(n) < 0.4, rng.random(n), answers)
        now = chances.copy()
        if run in lost:
            now[worse] = np.maximum(0.0, now[worse] - 0.7)
        scores.append((answers < now).astype(np.float64))
    return Series(np.array(scores))


def is_shown(series: Series) -> bool:
    return any(step.shows(0.05, LEVEL) for step in series.steps())


def test_an_unchanged_series_shows_no_loss() -> None:
    assert not is_shown(draw(20))


def test_a_lasting_loss_is_shown_with_its_first_run() -> None:
    series = draw(16, lost=range(12, 16))
    assert is_shown(series)
    assert abs(int(np.argmax(series.first_run_chances())) - 12) <= 1
    assert series.first_run_chances().sum() == pytest.approx(1.0)


def test_a_loss_that_is_allowed_is_none() -> None:
    series = draw(16, lost=range(12, 16))
    assert not any(step.shows(0.05, LEVEL) for step in series.steps(allowed=0.2))


def test_two_runs_are_no_level() -> None:
    assert not is_shown(Series(np.array([[1.0] * 40, [0.0] * 40])))


def test_a_loss_lasts_until_a_rise_is_shown() -> None:
    assert recovered_since([draw(18, lost=range(12, 18))], 12, 0.14, LEVEL, was_shown=True) is None
    back = recovered_since([draw(26, lost=range(12, 18))], 12, 0.14, LEVEL, was_shown=True)
    assert back is not None
    assert back >= 18


def test_the_mean_counts_the_metrics_that_a_question_has() -> None:
    one, other = np.array([[1.0, 0.5], [1.0, np.nan]]), np.array([[0.0, np.nan], [0.5, np.nan]])
    np.testing.assert_array_equal(mean_series([Series(one), Series(other)]).scores, [[0.5, 0.5], [0.75, np.nan]])


@pytest.mark.heavy
def test_a_merged_loss_is_never_said_to_be_over_while_it_lasts() -> None:
    closed = 0
    for seed in range(20):
        series = draw(30, lost=range(12, 30), seed=seed)
        closed += any(
            recovered_since([Series(series.scores[:runs])], 12, 0.14, LEVEL, was_shown=True) is not None
            for runs in range(14, 31)
        )
    assert closed == 0


@pytest.mark.heavy
def test_an_unchanged_branch_shows_a_loss_in_few_runs() -> None:
    """The newest run alone never turns a branch red, so it does not count."""
    shown, runs_looked_at = 0, range(6, 31)
    for seed in range(20):
        for runs in runs_looked_at:
            steps = Series(draw(30, seed=seed).scores[:runs]).steps()
            shown += any(len(step.after) > 1 and step.shows(0.05, LEVEL) for step in steps)
    assert shown <= 0.01 * 20 * len(runs_looked_at)
