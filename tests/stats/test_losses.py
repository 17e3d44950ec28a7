"""Losses on these questions: beyond what they score by chance, and beyond a reshuffle of which of them succeed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ragstone.stats.arrays import Floats
from ragstone.stats.losses import Change, loss_p_value, loss_test, mean_change, row_means


def change(before: Floats, after: Floats, **options: Any) -> Change:
    """The change of questions with these scores, one row each."""
    before, after = (np.asarray(scores, dtype=np.float64).reshape(len(scores), -1) for scores in (before, after))
    return Change(np.arange(len(after)), after=after, before=before, **options)


def right(count: int, n: int, runs: int = 1) -> Floats:
    """`count` right answers and then wrong ones, the same in each run."""
    return np.tile((np.arange(n) < count).astype(np.float64)[:, None], (1, runs))


def draw(chances: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """Right or wrong answers (n, runs), right with these probabilities."""
    return (rng.random((len(chances), runs)) < chances[:, None]).astype(np.float64)


def p_values_of(*changes: Change) -> list[float]:
    """The p-values of changes that are tested together."""
    p_values, _ = loss_test(changes)
    return [float(p_value) for p_value in p_values]


def test_the_more_questions_are_lost_the_less_it_is_chance() -> None:
    assert (
        p_values_of(change(right(40, 50), right(40, 50))) == p_values_of(change(right(40, 50), right(45, 50))) == [1.0]
    )
    p_values = [loss_p_value(change(right(50, 50, 6), right(50 - lost, 50))) for lost in (1, 2, 3, 4, 6)]
    assert p_values == sorted(p_values, reverse=True)
    assert p_values[0] > 0.02  # even of questions that never failed, one may fail
    assert p_values[-1] < 1e-3


def test_without_changes_nothing_is_lost() -> None:
    p_values, mean_p_value = loss_test([])
    assert (p_values.size, mean_p_value) == (0, 1.0)


def test_as_many_won_as_lost_is_a_reshuffle() -> None:
    before = right(40, 80, 6)
    after = before[:, :1].copy()
    after[:10] = 0.0
    assert loss_p_value(change(before, after)) < 1e-3
    after[40:49] = 1.0
    assert loss_p_value(change(before, after)) > 0.05


def test_a_question_that_was_always_right_says_more_than_one_that_was_right_by_chance_or_once() -> None:
    flaky = draw(np.full(60, 0.8), 6, np.random.default_rng(2))
    lost = np.ones((60, 1))
    lost[:8] = 0.0
    assert loss_p_value(change(right(60, 60, 6), lost)) < 1e-6
    assert loss_p_value(change(flaky, np.minimum(lost, flaky[:, :1]))) > 1e-4
    after = right(77, 80)
    assert loss_p_value(change(right(80, 80, 6), after)) < loss_p_value(change(right(80, 80), after))


def test_the_same_answer_again_is_no_second_observation() -> None:
    """A lucky answer that is repeated in each of six runs says little about the question."""
    rng = np.random.default_rng(3)
    chances = rng.beta(4.0, 1.0, 80)
    before = np.empty((80, 6))
    before[:, 0] = draw(chances, 1, rng)[:, 0]
    for run in range(1, 6):
        is_new = rng.random(80) < 0.3
        before[:, run] = np.where(is_new, draw(chances, 1, rng)[:, 0], before[:, run - 1])
    after = before[:, -1:].copy()
    after[np.flatnonzero(before.min(axis=1) == 1.0)[:3]] = 0.0
    assert loss_p_value(change(before, after)) > 0.01


def test_answers_without_a_score_are_left_out() -> None:
    before, after = right(30, 30, 6), right(24, 30, 2)
    gaps, short = before.copy(), after.copy()
    gaps[::3, 2] = np.nan
    short[1::4, 1] = np.nan
    assert row_means(gaps).tolist() == row_means(before).tolist()
    assert loss_p_value(change(gaps, short)) < 0.01


def test_related_questions_count_as_one() -> None:
    lost = change(right(60, 60, 6), right(48, 60))
    groups = np.arange(60) // 12  # the twelve that were lost are one of five groups
    assert p_values_of(replace(lost, groups=groups))[0] > 1e4 * p_values_of(lost)[0]


def test_a_loss_that_is_expected_is_none() -> None:
    before, after = right(50, 50, 6), right(45, 50)
    assert loss_p_value(change(before, after)) < 0.01
    assert loss_p_value(change(before, after, expected=-0.1)) == 1.0


def test_a_part_is_told_from_as_many_questions_of_the_whole() -> None:
    whole = change(right(100, 100, 6), right(92, 100))
    lost, healthy = (
        Change(whole.units[part], whole.after[part], whole.before[part], is_part=True, metric_change=whole)
        for part in (slice(-10, None), slice(10))
    )
    _, p_value_of_lost, p_value_of_healthy = p_values_of(whole, lost, healthy)
    assert p_value_of_lost < 1e-4
    assert p_value_of_healthy == 1.0


@pytest.mark.heavy
@pytest.mark.parametrize("parts", [1, 40])
def test_parts_share_a_seventh_of_the_error_rate(parts: int) -> None:
    flaky = draw(np.full(100, 0.7), 6, np.random.default_rng(4))
    whole = change(flaky, flaky[:, :1])
    part = Change(whole.units[:40], whole.after[:40] * 0.4, whole.before[:40], is_part=True)
    alone = p_values_of(part)[0]
    assert alone * 7 * parts / 20 < p_values_of(whole, *[part] * parts)[1] < alone * 7 * parts * 20


def test_small_losses_in_every_metric_are_shown_by_their_mean() -> None:
    rng = np.random.default_rng(4)
    changes = []
    for _ in range(8):
        before = np.clip(rng.normal(0.8, 0.1, (40, 1)) + rng.normal(0.0, 0.1, (40, 6)), 0.0, 1.0)
        after = np.clip(before.mean(axis=1, keepdims=True) - 0.04 + rng.normal(0.0, 0.1, (40, 1)), 0.0, 1.0)
        changes.append(change(before, after))
    p_values, mean_p_value = loss_test(changes)
    assert mean_p_value < min(p_values)


def test_the_mean_is_over_the_metrics_that_a_question_has_in_all_its_answers() -> None:
    first = change(np.array([[1.0], [0.5], [0.0]]), np.array([[1.0], [1.0], [0.0]]))
    gap = Change(np.array([1, 2]), np.array([[0.0], [np.nan]]), np.array([[0.5], [1.0]]))
    mean = mean_change([first, gap])
    assert mean.units.tolist() == [0, 1]
    assert mean.after.ravel().tolist() == mean.before.ravel().tolist() == [1.0, 0.5]


@pytest.mark.heavy
def test_ten_thousand_questions_are_decided() -> None:
    before, after, lost = (
        draw(np.full(10_000, p), 1, np.random.default_rng(s)) for s, p in ((1, 0.9), (2, 0.9), (3, 0.97))
    )
    assert loss_p_value(change(before, after)) > 0.001
    assert loss_p_value(change(before, np.minimum(after, lost))) < 0.001


RENEWED_SHARE = 0.4


def draw_runs(chances: Floats, count: int, rng: np.random.Generator, *, statements: int) -> Floats:
    """The scores (n, count) of runs, in each of which RENEWED_SHARE of the answers are new: the shares of statements
    that are right, with these probabilities."""
    scores = np.empty((len(chances), count))
    previous = rng.binomial(statements, chances) / statements
    for run in range(count):
        is_new = rng.random(len(chances)) < RENEWED_SHARE
        previous = np.where(is_new, rng.binomial(statements, chances) / statements, previous)
        scores[:, run] = previous
    return scores


@pytest.mark.heavy
@pytest.mark.parametrize("statements", [1, 4])
def test_unchanged_and_reshuffled_systems_are_seldom_red_and_losses_often(statements: int) -> None:
    """At an error rate of .01 for one metric, n = 80, a level of six runs and six answers now."""
    red = dict.fromkeys(("unchanged", "reshuffled", "lost"), 0)
    for seed, kind in itertools.product(range(100), red):
        rng = np.random.default_rng((seed, statements))
        chances = rng.beta(6.0, 0.6, 80)
        unchanged = draw_runs(chances, 12, rng, statements=statements)
        if kind == "reshuffled":
            shuffled = rng.choice(80, 40, replace=False)
            chances[shuffled] = chances[np.roll(shuffled, 1)]
        elif kind == "lost":
            chances[rng.choice(80, 16, replace=False)] *= 0.5
        after = unchanged[:, 6:] if kind == "unchanged" else draw_runs(chances, 6, rng, statements=statements)
        red[kind] += loss_p_value(change(unchanged[:, :6], after)) <= 0.01
    assert red["unchanged"] <= 6
    assert red["reshuffled"] <= 6
    assert red["lost"] >= 60
