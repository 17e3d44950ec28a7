"""Anytime-valid limits of the mean of a finite set: right at all times at once, sooner where the answer is clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragstone.stats.sequential import Draws

Floats = NDArray[np.float64]


def drawn(
    values: Floats,
    rng: np.random.Generator,
    *,
    weights: Floats | None = None,
    controls: Floats | float = 0.5,
    noise: Floats | float = 0.1,
    low: float = 0.0,
) -> Draws:
    """All `values` in an order that is drawn by weight."""
    total = len(values)
    given = np.ones(total) if weights is None else weights
    order = np.argsort(rng.exponential(size=total) / given)
    spread = (np.broadcast_to(np.asarray(one, dtype=np.float64), total)[order] for one in (controls, noise, low))
    controls, noise, lows = spread
    return Draws(values[order], given[order], controls, noise, lows, np.ones(total))


def first(draws: Draws, n: int) -> Draws:
    return replace(draws, values=draws.values[:n])


def ever(draws: Draws, bound: float, *, above: bool, alpha: float = 0.05, aim: float | None = None) -> bool:
    """Whether a look after any value but the last shows that the mean is above (below) the bound."""
    part = first(draws, len(draws.weights) - 1)
    if above:
        return part.shown_above(bound, alpha, bound - 0.05 if aim is None else aim)
    return part.mirrored.shown_above(-bound, alpha, -bound - 0.05 if aim is None else -aim)


SETS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "right or wrong": lambda rng: np.asarray(rng.random(120) < 0.8, dtype=np.float64),
    "smooth": lambda rng: rng.beta(8, 2, size=120),
    "nearly perfect": lambda rng: np.where(rng.random(120) < 0.97, 1.0, 0.0),
    "differences, mostly zero": lambda rng: np.where(rng.random(120) < 0.4, rng.normal(0, 0.25, 120), 0.0).clip(-1, 1),
}
HISTORIES = ("none", "right", "hostile")


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("name", SETS)
def test_looking_after_every_value_seldom_refutes_what_is_true(name: str, history: str) -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        values = np.asarray(SETS[name](rng), dtype=np.float64)
        low = -1.0 if values.min() < 0.0 else 0.0
        weights, controls = np.ones(len(values)), np.full(len(values), 0.0 if low else 0.5)
        if history == "right":
            controls = np.clip(values + rng.normal(0, 0.1, len(values)), low, 1.0)
            weights = np.where(values == np.median(values), 0.3, 1.0)
        elif history == "hostile":  # what is good comes first, and is what was predicted of everything
            controls, weights = np.full(len(values), 1.0), np.where(values >= np.median(values), 1.0, 0.25)
        noise = 1e-4 if history == "hostile" else 0.05
        draws = drawn(values, rng, weights=weights, controls=controls, noise=noise, low=low)
        mean = float(values.mean())
        wrong += ever(draws, mean + 1e-9, above=True)
        wrong += ever(draws, mean - 1e-9, above=False)
    # Two sides at 5 % each are 20 of 400; 33 lie beyond the 99.5th percentile.
    assert wrong <= 33


def test_a_clear_answer_comes_early() -> None:
    rng = np.random.default_rng(3)
    high = first(drawn(rng.beta(18, 2, size=1000), rng), 150)
    low = first(drawn(rng.beta(8, 4, size=1000), rng), 150)
    assert high.shown_above(0.7, 0.05, 0.7)
    assert low.mirrored.shown_above(-0.85, 0.05, -0.85)


def test_the_first_decision_stands_whatever_follows() -> None:
    values = np.concatenate([np.zeros(100), np.ones(900)])
    whole = Draws(values, np.ones(1000), np.full(1000, 0.5), np.full(1000, 0.1), np.zeros(1000), np.ones(1000))
    found = [first(whole, n).mirrored.shown_above(-0.5, 0.05, -0.5) for n in (5, 20, 60, 150)]
    assert found == [False, False, True, True] or found == [False, True, True, True]


def test_nothing_is_decided_by_nothing() -> None:
    nothing = first(drawn(np.ones(50), np.random.default_rng(0)), 0)
    assert not nothing.shown_above(0.5, 0.05, 0.4)
    assert (nothing.lower(0.05, 0.4), nothing.upper(0.05, 0.6)) == (0.0, 1.0)
    assert nothing.estimate == 0.5, "the prediction"


def test_bounds_at_the_ends_can_not_be_crossed() -> None:
    some = first(drawn(np.ones(50), np.random.default_rng(0)), 20)
    assert not some.shown_above(1.0, 0.05, 0.9)
    assert not first(drawn(np.zeros(50), np.random.default_rng(0)), 20).mirrored.shown_above(0.0, 0.05, -0.1)


def test_a_lower_bound_is_rejected_with_every_higher_one() -> None:
    some = first(drawn(np.random.default_rng(4).random(60), np.random.default_rng(4)), 25)
    found = [some.shown_above(m, 0.05, 0.3) for m in np.linspace(0.0, 1.0, 101)]
    assert found == sorted(found, reverse=True)
    limit = some.lower(0.05, 0.3)
    assert some.shown_above(limit, 0.05, 0.3)
    assert not some.shown_above(limit + 1e-6, 0.05, 0.3)


def test_limits_tighten_and_end_at_the_mean_of_all() -> None:
    rng = np.random.default_rng(5)
    draws = drawn(rng.beta(8, 2, size=200), rng, weights=rng.uniform(0.3, 1.0, 200), controls=0.8)
    widths = [part.upper(0.05, 0.9) - part.lower(0.05, 0.7) for part in (first(draws, n) for n in (10, 50, 120, 190))]
    assert widths == sorted(widths, reverse=True)
    mean = float(draws.values.mean())
    assert draws.complete
    assert (draws.lower(0.05, 0.7), draws.estimate, draws.upper(0.05, 0.9)) == pytest.approx((mean, mean, mean))


def test_limits_hold_at_all_times_at_once() -> None:
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = np.where(rng.random(150) < 0.85, 1.0, rng.random(150) / 2)
        draws = drawn(values, rng, weights=np.where(values == 1.0, 0.4, 1.0), controls=0.9)
        parts = [first(draws, n) for n in range(10, 150, 10)]
        held += all(one.lower(0.05, 0.8) <= values.mean() <= one.upper(0.05, 0.95) for one in parts)
    assert held >= 50  # 54 of 60 are expected at least


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 39))
def test_the_estimate_is_unbiased_whatever_the_weights_and_predictions(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.random(40), rng.uniform(0.25, 1.0, 40)
    controls = rng.random(40)
    found = [first(drawn(values, rng, weights=weights, controls=controls), n).estimate for _ in range(400)]
    assert abs(float(np.mean(found)) - float(values.mean())) <= 5.0 * float(np.std(found)) / 20.0 + 1e-9


def test_with_equal_weights_and_predictions_the_estimate_is_the_mean_of_the_values() -> None:
    some = first(drawn(np.random.default_rng(6).random(50), np.random.default_rng(6), controls=0.3), 17)
    assert some.estimate == pytest.approx(float(some.values.mean()))
    assert some.factors == pytest.approx(1 / 17)
    assert some.probabilities[:3] == pytest.approx([1 / 50, 1 / 49, 1 / 48])


def test_a_good_prediction_decides_sooner() -> None:
    rng = np.random.default_rng(8)
    values = np.asarray(rng.random(300) < 0.8, dtype=np.float64)
    needed = []
    for controls in (np.full(300, 0.5), values):
        draws = drawn(values, np.random.default_rng(9), controls=controls, noise=0.1)
        needed.append(next(n for n in range(5, 301, 5) if first(draws, n).shown_above(0.7, 0.05, 0.7)))
    assert needed[1] < 0.6 * needed[0]


def test_values_out_of_bounds_are_refused() -> None:
    fine = drawn(np.full(5, 0.5), np.random.default_rng(0))
    for bad in (1.2, np.nan):
        with pytest.raises(ValueError, match="finite and within"):
            replace(fine, values=np.array([bad]))
