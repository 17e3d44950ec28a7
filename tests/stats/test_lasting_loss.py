from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats.lasting_loss import ERROR_RATE, Series, mean_series, recovered_since

NO_RUN = range(0)


def draw(runs: int, *, lost: range = NO_RUN, loss: float = 0.14, n: int = 80, seed: int = 1) -> Series:
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


def back_at(scores: float, *, runs: int = 12) -> Series:
    """60 questions that score 1, then 0.5 in two runs, then `scores` in the newest one."""
    noise = np.random.default_rng(1).normal(0.0, 0.02, (runs + 3, 60))
    means = np.array([0.95] * runs + [0.45] * 2 + [scores])
    return Series(np.clip(means[:, None] + noise, 0.0, 1.0))


@pytest.mark.parametrize(
    ("series", "allowed", "shown"),
    [
        pytest.param(draw(20), 0.0, False, id="unchanged"),
        pytest.param(draw(16, lost=range(12, 16)), 0.0, True, id="a lasting loss"),
        pytest.param(draw(16, lost=range(12, 16)), 0.2, False, id="a loss that is allowed"),
        pytest.param(back_at(0.45), 0.1, True, id="a loss beyond what is allowed"),
        pytest.param(back_at(0.85), 0.1, False, id="the newest run is back at the accepted level"),
        pytest.param(back_at(0.95), 0.0, False, id="the newest run is back at the level"),
        pytest.param(Series(np.array([[1.0] * 40, [0.0] * 40])), 0.0, False, id="two runs are no level"),
    ],
)
def test_which_loss_is_shown(series: Series, allowed: float, shown: bool) -> None:
    assert any(step.shows(0.05, ERROR_RATE) for step in series.steps(allowed=allowed)) is shown


def test_a_loss_has_a_first_run_and_lasts_until_a_rise_is_shown() -> None:
    firsts = draw(16, lost=range(12, 16)).likely_first_runs(24)
    assert abs(firsts[0].index - 12) <= 1
    assert sorted(first.index for first in firsts) == list(range(1, 16))
    assert sum(first.probability for first in firsts) == pytest.approx(1.0)
    assert recovered_since([draw(18, lost=range(12, 18))], 12, 0.14, ERROR_RATE, was_shown=True) is None
    back = recovered_since([draw(26, lost=range(12, 18))], 12, 0.14, ERROR_RATE, was_shown=True)
    assert back is not None
    assert back >= 18


def test_the_mean_counts_the_metrics_that_a_question_has() -> None:
    one, other = np.array([[1.0, 0.5], [1.0, np.nan]]), np.array([[0.0, np.nan], [0.5, np.nan]])
    np.testing.assert_array_equal(mean_series([Series(one), Series(other)]).scores, [[0.5, 0.5], [0.75, np.nan]])


@pytest.mark.heavy
def test_a_merged_loss_is_never_said_to_be_over_while_it_lasts() -> None:
    for seed in range(20):
        series = draw(30, lost=range(12, 30), seed=seed)
        for runs in range(14, 31):
            part = Series(series.scores[:runs])
            assert recovered_since([part], 12, 0.14, ERROR_RATE, was_shown=True) is None


@pytest.mark.heavy
def test_an_unchanged_branch_shows_a_loss_in_few_runs() -> None:
    """The newest run alone never turns a branch red, so it does not count."""
    shown, runs_looked_at = 0, range(6, 31)
    for seed in range(20):
        for runs in runs_looked_at:
            steps = Series(draw(30, seed=seed).scores[:runs]).steps()
            shown += any(step.test.after.shape[1] > 1 and step.shows(0.05, ERROR_RATE) for step in steps)
    assert shown <= 0.01 * 20 * len(runs_looked_at)
