"""Decisions over several hypotheses: what is decided, at which error rate, and that interval and decision agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.family import Decision, Hypothesis, adjusted_p_values, decide, step_down

PAIRED = (-1.0, 1.0)


def drop(values: np.ndarray, bound: float = 0.0, **more: object) -> Hypothesis:
    return Hypothesis("drop", values, np.arange(len(values)), bound, PAIRED, **more)  # type: ignore[arg-type]


def floor(values: np.ndarray, bound: float, **more: object) -> Hypothesis:
    return Hypothesis("floor", values, np.arange(len(values)), bound, **more)  # type: ignore[arg-type]


def agrees(decision: Decision, bound: float) -> bool:
    return (decision.interval.high < bound) == decision.below and (decision.interval.low >= bound) == decision.above


def test_no_hypotheses_give_no_decisions() -> None:
    assert decide([]) == ()


def test_a_clear_floor_is_decided_either_way() -> None:
    values = np.random.default_rng(0).beta(8, 2, size=100)
    (low,) = decide([floor(values, 0.9)])
    (high,) = decide([floor(values, 0.7)])
    assert (low.below, low.above, low.n_more) == (True, False, 0)
    assert (high.below, high.above, high.n_more) == (False, True, 0)
    assert low.interval.high < 0.9
    assert high.interval.low >= 0.7


def test_a_floor_of_zeros_and_ones_has_the_binomial_p_value() -> None:
    values = np.array([1.0] * 12 + [0.0] * 8)
    (found,) = decide([floor(values, 0.85)])
    assert found.p_below == pytest.approx(stats.binom.cdf(12, 20, 0.85), rel=1e-9)


def test_unchanged_differences_are_exactly_zero_and_never_below() -> None:
    (found,) = decide([drop(np.zeros(200), -0.02)])
    assert (found.estimate, found.interval.low, found.interval.high) == (0.0, 0.0, 0.0)
    assert (found.below, found.above) == (False, True)
    (strict,) = decide([drop(np.zeros(200), 0.0)])
    assert (strict.below, strict.above) == (False, True)


def test_a_drop_has_the_exact_p_value_of_its_sign_flips() -> None:
    values = np.array([-0.3, -0.2, -0.4, 0.1, -0.25, -0.5, 0.0, 0.0])
    (found,) = decide([drop(values)])
    live = values[values != 0]
    flips = np.array(np.meshgrid(*[[1, -1]] * 6)).reshape(6, -1).T @ np.abs(live)
    more, equal = np.mean(flips < live.sum() - 1e-9), np.mean(np.abs(flips - live.sum()) <= 1e-9)
    assert found.p_below == pytest.approx(float(more + equal / 2))


def test_three_changed_answers_can_not_show_a_drop_and_four_just_can() -> None:
    three = np.array([-1.0] * 3 + [0.0] * 17)
    four = np.array([-1.0] * 4 + [0.0] * 16)
    mixed = np.array([-1.0] * 4 + [1.0] + [0.0] * 15)
    assert [one.below for one in decide([drop(three)])] == [False]
    assert [one.below for one in decide([drop(four)])] == [True]
    assert [one.below for one in decide([drop(mixed)])] == [False]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_very_few_scores_decide_only_what_the_exact_bound_allows(n: int) -> None:
    (zeros,) = decide([floor(np.zeros(n), 0.85)])
    assert zeros.below == (0.15**n <= 0.05)
    (ones,) = decide([floor(np.ones(n), 0.85)])
    assert not ones.below
    assert not ones.above
    (fall,) = decide([drop(np.full(n, -0.5))])
    assert fall.below == (0.5**n <= 0.05)


def test_hypotheses_that_move_together_cost_no_more_than_one() -> None:
    values = np.random.default_rng(1).normal(-0.05, 0.2, size=60).clip(-1, 1)
    marginal, alone = adjusted_p_values([drop(values)])
    _, together = adjusted_p_values([drop(values) for _ in range(6)])
    assert alone == pytest.approx(marginal)
    assert together == pytest.approx(np.full(6, marginal[0]))


def test_independent_hypotheses_cost_about_what_holm_charges() -> None:
    rng = np.random.default_rng(2)
    pairs = [drop(rng.normal(-0.06, 0.2, size=80).clip(-1, 1)) for _ in range(4)]
    shuffled = [
        Hypothesis(one.name, one.values, np.arange(80) + 100 * index, 0.0, PAIRED) for index, one in enumerate(pairs)
    ]
    marginal, adjusted = adjusted_p_values(shuffled)
    smallest = int(np.argmin(marginal))
    assert adjusted[smallest] <= 4 * marginal[smallest] + 1e-12
    assert adjusted[smallest] >= 2.5 * marginal[smallest]


def test_the_adjustment_steps_down_and_never_falls_below_the_marginal_p_value() -> None:
    rng = np.random.default_rng(3)
    null = rng.random((5000, 5))
    p = np.array([0.2, 0.001, 0.04, 0.012, 0.9])
    adjusted = step_down(p, null, np.ones(5), np.zeros(5))
    order = np.argsort(p)
    assert np.all(np.diff(adjusted[order]) >= 0)
    assert np.all(adjusted >= p)
    assert adjusted[1] == pytest.approx(1 - (1 - 0.001) ** 5, abs=0.002)


def test_a_heavier_hypothesis_gets_more_of_alpha() -> None:
    rng = np.random.default_rng(4)
    null = rng.random((20_000, 2))
    p = np.array([0.03, 0.5])
    light = step_down(p, null, np.array([0.2, 1.0]), np.zeros(2))[0]
    heavy = step_down(p, null, np.array([1.0, 0.2]), np.zeros(2))[0]
    assert heavy < 0.05 < light


def test_ties_with_the_data_count_half() -> None:
    null = np.array([[0.25], [0.5], [0.75], [1.0]])
    assert step_down(np.array([0.25]), null, np.ones(1), np.array([0.25])) == pytest.approx([0.125])
    assert step_down(np.array([0.25]), null, np.ones(1), np.zeros(1)) == pytest.approx([0.25])


def test_weights_of_one_size_are_no_weights() -> None:
    null = np.random.default_rng(5).random((2000, 3))
    p = np.array([0.01, 0.2, 0.03])
    assert step_down(p, null, np.full(3, 7.0), np.zeros(3)) == pytest.approx(
        step_down(p, null, np.ones(3), np.zeros(3))
    )


def test_the_same_input_gives_the_same_decision_whatever_the_order_of_hypotheses() -> None:
    rng = np.random.default_rng(6)
    asked = [drop(rng.normal(-0.03, 0.2, size=50).clip(-1, 1)) for _ in range(3)] + [floor(rng.random(50), 0.6)]
    forward = decide(asked, seed=3)
    assert forward == decide(asked, seed=3)
    backward = decide(asked[::-1], seed=3)[::-1]
    assert [one.p_adjusted for one in forward] == pytest.approx([one.p_adjusted for one in backward])


def test_groups_are_flipped_as_groups() -> None:
    values = np.repeat(np.array([-0.4, -0.3, -0.5, -0.2]), 10)
    (alone,) = decide([drop(values)])
    (grouped,) = decide([drop(values, groups=np.repeat(np.arange(4), 10))])
    assert alone.below
    assert not grouped.below
    assert grouped.p_below == pytest.approx(1 / 16)


def test_what_is_undecided_says_how_many_more_and_what_could_be_seen() -> None:
    values = np.random.default_rng(7).beta(8, 2, size=40)
    (found,) = decide([floor(values, float(values.mean()) + 0.01)])
    assert not found.below
    assert not found.above
    assert found.n_more is not None
    assert found.n_more > 40
    assert found.detectable is not None
    assert 0.02 < found.detectable < 0.2


def test_the_number_of_samples_it_asks_for_does_settle_it() -> None:
    rng = np.random.default_rng(8)
    values = rng.beta(8, 2, size=40) - 0.0
    bound = float(values.mean()) + 0.03
    (found,) = decide([floor(values, bound)])
    assert found.n_more
    settled = 0
    for _ in range(60):
        (again,) = decide([floor(rng.choice(values, size=40 + found.n_more), bound)])
        settled += again.below
    assert settled >= 0.65 * 60


@pytest.mark.parametrize("size", [1, 3])
def test_the_number_holds_near_the_bound_and_for_samples_that_belong_together(size: int) -> None:
    rng = np.random.default_rng(5)
    blocks = np.array([1.0] * 17 + [0.0] * 3)
    settled = 0
    (found,) = decide([grouped_floor(blocks, size, 0.78)])
    assert found.n_more
    for _ in range(60):
        (again,) = decide([grouped_floor(rng.choice(blocks, 20 + found.n_more // size), size, 0.78)])
        settled += again.above
    assert 0.6 * 60 <= settled <= 0.95 * 60


def grouped_floor(blocks: np.ndarray, size: int, bound: float) -> Hypothesis:
    values = np.repeat(blocks, size)
    groups = np.repeat(np.arange(len(blocks)), size) if size > 1 else None
    return Hypothesis("mean", values, np.arange(len(values)), bound, (0.0, 1.0), groups)


def test_an_estimate_at_its_bound_is_settled_by_no_number_of_samples() -> None:
    values = np.array([0.0, 1.0] * 20)
    (found,) = decide([floor(values, 0.5)])
    assert found.n_more is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.0, 0.0, -0.5, 0.5, -1.0, 0.25, -0.1]), min_size=1, max_size=40),
    st.sampled_from([0.0, -0.02, -0.1]),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2 / 3]), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.5, 0.85, 1.0]),
)
def test_interval_and_decision_never_contradict_each_other(
    differences: list[float], margin: float, scores: list[float], least: float
) -> None:
    asked = [drop(np.array(differences), margin), floor(np.array(scores), least)]
    for decision, bound in zip(decide(asked), (margin, least), strict=True):
        assert agrees(decision, bound)
        assert not (decision.below and decision.above)
        assert decision.interval.low <= decision.estimate <= decision.interval.high + 1e-12


def test_unchanged_runs_are_failed_at_most_as_often_as_stated() -> None:
    rng = np.random.default_rng(9)
    failed = 0
    for _ in range(400):
        quality = rng.random((30, 1))
        scores = [np.where(rng.random((30, 4)) < 0.5 + 0.45 * quality, 1.0, rng.random((30, 4))) for _ in range(2)]
        change = np.where(rng.random((30, 1)) < 0.4, scores[1] - scores[0], 0.0)
        _, adjusted = adjusted_p_values([drop(column) for column in change.T])
        failed += bool(np.any(adjusted <= 0.05))
    # Three standard errors above 5 %.
    assert failed <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_a_drop_in_every_hypothesis_is_seen() -> None:
    rng = np.random.default_rng(10)
    seen = 0
    for _ in range(100):
        change = np.where(rng.random((60, 1)) < 0.4, rng.normal(-0.2, 0.25, size=(60, 4)), 0.0).clip(-1, 1)
        _, adjusted = adjusted_p_values([drop(column) for column in change.T])
        seen += bool(np.any(adjusted <= 0.05))
    assert seen >= 75


def test_a_hundred_thousand_samples_are_decided() -> None:
    rng = np.random.default_rng(11)
    change = np.where(rng.random(100_000) < 0.4, rng.normal(-0.01, 0.2, size=100_000), 0.0).clip(-1, 1)
    fall, least = decide([drop(change, -0.002), floor(np.abs(change), 0.01)])
    assert not fall.above
    assert least.above


@pytest.mark.parametrize(
    ("hypothesis", "words"),
    [
        (drop(np.array([np.nan, 0.1])), "finite"),
        (drop(np.array([-1.5])), "within"),
        (Hypothesis("drop", np.zeros(3), np.arange(2), 0.0, PAIRED), "units"),
        (drop(np.zeros(3), weight=0.0), "weight"),
        (drop(np.zeros(3), groups=np.array([0, 1, -1])), "negative"),
        (Hypothesis("drop", np.zeros(2), np.array([0, -1]), 0.0, PAIRED), "negative"),
    ],
)
def test_what_can_not_be_decided_is_refused(hypothesis: Hypothesis, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decide([hypothesis])


def test_an_alpha_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha"):
        decide([drop(np.zeros(3))], alpha=0.7)
