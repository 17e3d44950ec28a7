"""Decisions over several floors: what is decided, at which error rate, and that interval and decision agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragstone.stats.family import Decision, Hypothesis, adjusted_p_values, decide


def floor(values: np.ndarray, bound: float, **more: object) -> Hypothesis:
    return Hypothesis("floor", values, np.arange(len(values)), bound, **more)  # type: ignore[arg-type]


def agrees(decision: Decision, bound: float) -> bool:
    return (decision.interval.high < bound) == decision.below and (decision.interval.low >= bound) == decision.above


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


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_very_few_scores_decide_only_what_the_exact_bound_allows(n: int) -> None:
    (zeros,) = decide([floor(np.zeros(n), 0.85)])
    assert zeros.below == (0.15**n <= 0.05)
    (ones,) = decide([floor(np.ones(n), 0.85)])
    assert not ones.below
    assert not ones.above


def test_hypotheses_that_move_together_cost_no_more_than_one() -> None:
    values = np.random.default_rng(1).normal(0.75, 0.2, size=60).clip(0, 1)
    marginal, alone = adjusted_p_values([floor(values, 0.8)])
    _, together = adjusted_p_values([floor(values, 0.8) for _ in range(6)])
    assert alone == pytest.approx(marginal)
    assert together == pytest.approx(np.full(6, marginal[0]), rel=0.3)


def test_independent_hypotheses_cost_about_what_holm_charges() -> None:
    rng = np.random.default_rng(2)
    apart = [
        Hypothesis("floor", rng.normal(0.8, 0.2, size=80).clip(0, 1), np.arange(80) + 100 * index, 0.8)
        for index in range(4)
    ]
    marginal, adjusted = adjusted_p_values(apart)
    smallest = int(np.argmin(marginal))
    assert adjusted[smallest] <= 4 * marginal[smallest] + 1e-12
    assert adjusted[smallest] >= 2.5 * marginal[smallest]


def test_the_same_input_gives_the_same_decision_whatever_the_order_of_hypotheses() -> None:
    rng = np.random.default_rng(6)
    asked = [floor(rng.random(50), 0.5 + 0.1 * index) for index in range(4)]
    forward = decide(asked, seed=3)
    assert forward == decide(asked, seed=3)
    backward = decide(asked[::-1], seed=3)[::-1]
    assert [one.p_adjusted for one in forward] == pytest.approx([one.p_adjusted for one in backward])


def test_what_is_undecided_says_how_many_more() -> None:
    values = np.random.default_rng(7).beta(8, 2, size=40)
    (found,) = decide([floor(values, float(values.mean()) + 0.01)])
    assert not found.below
    assert not found.above
    assert found.n_more is not None
    assert found.n_more > 40


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


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2 / 3]), min_size=1, max_size=40),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2 / 3]), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.5, 0.85, 1.0]),
)
def test_interval_and_decision_never_contradict_each_other(
    first: list[float], second: list[float], least: float
) -> None:
    for decision in decide([floor(np.array(first), least), floor(np.array(second), least)]):
        assert agrees(decision, least)
        assert not (decision.below and decision.above)
        assert decision.interval.low <= decision.estimate <= decision.interval.high + 1e-12


@pytest.mark.parametrize(
    ("hypothesis", "words"),
    [
        (floor(np.array([np.nan, 0.1]), 0.5), "finite"),
        (floor(np.array([-1.5]), 0.5), "within"),
        (Hypothesis("floor", np.zeros(3), np.arange(2), 0.0), "units"),
        (floor(np.zeros(3), 0.5, weight=0.0), "weight"),
        (floor(np.zeros(3), 0.5, groups=np.array([0, 1, -1])), "negative"),
        (Hypothesis("floor", np.zeros(2), np.array([0, -1]), 0.0), "negative"),
    ],
)
def test_what_can_not_be_decided_is_refused(hypothesis: Hypothesis, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decide([hypothesis])
    with pytest.raises(ValueError, match="alpha"):
        decide([floor(np.zeros(3), 0.5)], alpha=0.7)
    assert decide([]) == ()
