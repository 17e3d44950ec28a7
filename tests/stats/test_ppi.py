"""Prediction-powered means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from ragstone.stats.intervals import mean_interval
from ragstone.stats.ppi import (
    Floats,
    Ints,
    inverse_weights,
    powered_mean,
    tuned_weight,
    weighted_powered_mean,
)
from ragstone.stats.sampling import inclusion_probabilities, systematic_sample


def population(rng: np.random.Generator, n: int, error: float) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(n) < 0.8).astype(float)
    return labels, np.clip(labels * 0.9 + rng.normal(0.02, error, n), 0, 1)


def test_good_predictions_narrow_the_interval() -> None:
    labels, predictions = population(np.random.default_rng(1), 600, 0.05)
    found = powered_mean(labels[:80], predictions[:80], predictions[80:])
    alone = mean_interval(labels[:80])
    assert found.weight > 0.7
    assert found.gain > 3
    assert found.high - found.low < 0.7 * (alone.high - alone.low)
    assert found.low < 0.8 < found.high


def test_a_judge_that_flatters_is_corrected() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random(800) < 0.6).astype(float)
    flattering = np.clip(0.35 + 0.65 * labels + rng.normal(0, 0.05, 800), 0, 1)
    found = powered_mean(labels[:150], flattering[:150], flattering[150:])
    assert flattering.mean() > 0.7
    assert found.low < 0.6 < found.high
    assert found.estimate == pytest.approx(0.6, abs=0.08)


def test_without_unlabelled_units_the_labels_stand_alone() -> None:
    labels, predictions = population(np.random.default_rng(4), 50, 0.1)
    found = powered_mean(labels, predictions, np.array([]))
    alone = mean_interval(labels)
    assert found.weight == 0.0
    assert (found.estimate, found.low, found.high) == pytest.approx((alone.estimate, alone.low, alone.high), abs=1e-9)


def test_few_labels_that_all_agree_still_leave_a_width() -> None:
    found = powered_mean(np.ones(10), np.ones(10), np.ones(200))
    assert found.low == pytest.approx(0.025 ** (1 / 10))


@pytest.mark.heavy
def test_the_interval_covers_the_mean_of_the_labels() -> None:
    n = 20
    rng = np.random.default_rng(n)
    inside = 0
    for _ in range(120):
        labels, predictions = population(rng, n + 300, 0.2)
        found = powered_mean(labels[:n], predictions[:n], predictions[n:])
        inside += found.low <= 0.8 <= found.high
    assert inside >= 0.94 * 120


def test_the_weight_stays_between_zero_and_one() -> None:
    rng = np.random.default_rng(5)
    labels = rng.random(40)
    assert tuned_weight(labels, 1 - labels, rng.random(100)) == 0.0
    assert tuned_weight(labels, 0.1 * labels, 0.1 * rng.random(4000)) == 1.0
    assert tuned_weight(labels, np.full(40, 0.5), np.full(9, 0.5)) == 0.0


@pytest.mark.parametrize(
    ("labels", "predictions", "rest", "words"),
    [
        (np.array([]), np.array([]), np.ones(3), "labels and predictions"),
        (np.ones(3), np.ones(2), np.ones(3), "labels and predictions"),
        (np.ones(3), np.ones(3), np.array([np.nan]), "finite"),
        (np.full(3, 1.2), np.ones(3), np.ones(3), "within"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    labels: np.ndarray, predictions: np.ndarray, rest: np.ndarray, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        powered_mean(labels, predictions, rest)


@pytest.mark.heavy
def test_a_mean_stays_unbiased_when_the_uncertain_are_drawn_more_often() -> None:
    rng = np.random.default_rng(7)
    scores = rng.beta(2.0, 1.2, 400)
    # The judge errs most where it is uncertain, and there it flatters: the worst case for a draw by uncertainty.
    uncertain = 1.0 - np.abs(2.0 * scores - 1.0)
    people = np.clip(scores - 0.5 * uncertain * rng.random(400), 0.0, 1.0)
    shares = inclusion_probabilities(0.2 + 0.8 * uncertain, 60)
    truth = float(people.mean())
    weighted, plain, covered = [], [], 0
    for seed in range(150):
        drawn = systematic_sample(shares, seed=seed)
        assert len(drawn) == 60
        found = weighted_powered_mean(people[drawn], scores[drawn], inverse_weights(shares[drawn]), scores)
        rest = np.delete(scores, drawn)
        weighted.append(found.estimate)
        plain.append(powered_mean(people[drawn], scores[drawn], rest).estimate)
        covered += found.low <= truth <= found.high
    error = np.std(weighted) / np.sqrt(150)
    assert abs(np.mean(weighted) - truth) < 4 * error + 0.002
    assert abs(np.mean(plain) - truth) > 0.02  # as if they had been drawn at random: biased
    assert covered >= 0.95 * 150


def test_equal_probabilities_are_no_weights() -> None:
    labels, predictions = population(np.random.default_rng(8), 300, 0.1)
    weights = inverse_weights(np.full(60, 0.2))
    assert weights == pytest.approx(np.ones(60))
    found = weighted_powered_mean(labels[:60], predictions[:60], weights, predictions)
    plain = powered_mean(labels[:60], predictions[:60], predictions[60:])
    assert found.estimate == pytest.approx(plain.estimate, abs=0.02)


@settings(max_examples=60)
@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=60), st.data())
def test_probabilities_add_up_to_the_sample_and_follow_the_sizes(sizes: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(sizes)))
    size = np.array(sizes)
    shares = inclusion_probabilities(size, n)
    assert shares.sum() == pytest.approx(n)
    assert np.all((shares > 0.0) & (shares <= 1.0 + 1e-12))
    order = np.argsort(size)
    assert np.all(np.diff(shares[order]) >= -1e-9)
    drawn = systematic_sample(shares, seed=data.draw(st.integers(0, 99)))
    assert len(drawn) == len(set(drawn.tolist())) == n


@pytest.mark.heavy
def test_each_unit_is_drawn_with_its_probability() -> None:
    shares = inclusion_probabilities(np.array([1.0, 2.0, 3.0, 10.0, 0.5, 0.5]), 3)
    counts = np.bincount(np.concatenate([systematic_sample(shares, seed=s) for s in range(4000)]), minlength=6)
    assert counts / 4000 == pytest.approx(shares, abs=0.03)
    assert counts[3] == 4000


@pytest.mark.parametrize(("sizes", "n"), [([1.0, 0.0], 1), ([1.0], 2), ([1.0], 0), ([np.inf, 1.0], 1)])
def test_samples_that_can_not_be_drawn_are_refused(sizes: list[float], n: int) -> None:
    with pytest.raises(ValueError, match="need positive sizes"):
        inclusion_probabilities(np.array(sizes), n)


def grouped(rng: np.random.Generator, groups: int, size: int, *, shares: bool) -> tuple[Floats, Floats, Ints]:
    """Labels and predictions of groups of `size`, half of whose variance is between groups; the mean label is 0.8."""
    group = np.repeat(np.arange(groups), size)
    ability, ease = rng.normal(0.0, math.sqrt(0.5), groups), rng.normal(0.0, math.sqrt(0.5), groups)
    latent = ability[group] + rng.normal(0.0, math.sqrt(0.5), len(group))
    judged = ease[group] + rng.normal(0.0, math.sqrt(0.5), len(group))
    if shares:
        labels = rng.binomial(5, ndtr((latent + 1.0955) / 0.8333)) / 5.0  # Φ(1.0955 / √(1 + 0.8333²)) = 0.8
        return labels, np.clip(labels + 0.1 * judged - 0.05, 0.0, 1.0), group
    labels = (latent < 0.8416).astype(np.float64)
    return labels, np.where(judged > 1.0, 1.0 - labels, labels), group


@pytest.mark.heavy
@pytest.mark.parametrize(("size", "shares", "whole_groups"), [(5, True, False), (20, False, True), (20, True, False)])
def test_the_interval_covers_where_answers_of_a_group_are_alike(size: int, shares: bool, whole_groups: bool) -> None:
    rng = np.random.default_rng(size)
    inside = alone = 0
    for _ in range(100):
        labels, predictions, group = grouped(rng, 200 // size, size, shares=shares)
        if whole_groups:
            drawn = np.isin(group, rng.permutation(200 // size)[: 60 // size])
        else:
            drawn = np.isin(np.arange(200), rng.permutation(200)[:60])
        parts = labels[drawn], predictions[drawn], predictions[~drawn]
        found = powered_mean(*parts, groups=(group[drawn], group[~drawn]))
        inside += found.low <= 0.8 <= found.high
        without = powered_mean(*parts)
        alone += without.low <= 0.8 <= without.high
    assert inside >= 93
    assert size == 5 or alone < 90  # the test would see groups that are ignored


def test_labels_that_are_shares_need_no_allowance_for_the_whole_scale() -> None:
    rng = np.random.default_rng(5)
    labels = rng.binomial(5, 0.8, 20) / 5.0
    predictions, rest = labels - 0.05 * rng.random(20), rng.binomial(5, 0.8, 200) / 5.0
    found = powered_mean(labels, predictions, rest)
    marks = powered_mean(np.round(labels), predictions, rest)
    ideal = 2 * 1.96 * math.sqrt(np.var(labels) / 220)
    assert ideal < found.high - found.low < 0.2
    assert marks.high - marks.low > found.high - found.low
