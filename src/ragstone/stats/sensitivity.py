"""The smallest loss that the test of stats/losses.py finds in 4 of 5 runs, by
simulating this test.

A loss takes half of their mean score from some questions, drawn at random: many systems
that lost so many questions are drawn from the model of the questions, and tested as the
gate would. The number of lost questions is searched for.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.stats.arrays import Floats, Ints
from ragstone.stats.losses import (
    SMALL_SHARE,
    Draws,
    critical_value,
    standard_scores,
    standardised,
)
from ragstone.stats.score_model import SampledMeans, ScoreModel, grid, learn, means_anew

POWER = 0.8
"""The probability with which a loss is to be found."""
LOST = 0.5
"""The share of its mean score that a lost question loses."""
TYPICAL_SCORES = np.array([1.0] * 8 + [0.7, 0.2])
"""Scores of ten questions of a system of which nothing is known."""
TYPICAL_CHANGED = 0.4
"""The share of the answers that are presumed to change from run to run, where only one
run is known."""
MAX_QUESTIONS = 10_000_000

_DRAWS = 500
_MAX_SIMULATED = 2000
"""Of more questions, so many are simulated: what a loss exceeds the allowed one by
falls with the root of their number.
"""
_MIN_SIMULATED = 5


class LossRule(Struct, frozen=True):
    """When a loss fails."""

    fails: float
    """The largest p-value with which it fails, with all `answers`."""
    asks: float
    """The largest p-value with which it is asked about again, with the `first`
    answers."""
    answers: int
    """How many answers there are to a question in the end."""
    allowed: float
    """The fall of the mean that it must exceed."""
    runs: int = 1
    """How many runs the level is of."""
    first: int = 1
    """How many answers there are to a question at first."""


@lru_cache(maxsize=256)  # a run is decided several times with the same level
def visible_loss(model: ScoreModel, rule: LossRule) -> float | None:
    """The smallest fall of the mean score of the questions that fails with POWER; None:
    not even the largest."""
    n = len(model.weights)
    few = min(n, _MAX_SIMULATED)
    simulated = with_questions(model, few)
    powers = _powers(simulated, rule)
    if powers[few] < POWER:
        return None
    lost = bisect_left(powers.tolist(), POWER, lo=1)
    means, _ = grid()
    mean = float((simulated.weights @ means).mean())
    excess = max(0.0, LOST * mean * lost / few - rule.allowed)
    return rule.allowed + excess * math.sqrt(few / n)


def rows_needed(model: ScoreModel, rule: LossRule, loss: float) -> int | None:
    """How many questions like those of `model` find `loss` with POWER; None: not even
    MAX_QUESTIONS of them."""
    if loss <= rule.allowed:
        return None

    def visible(size: int) -> float:
        smallest = visible_loss(with_questions(model, size), rule)
        return math.inf if smallest is None else smallest

    sizes = range(_MIN_SIMULATED, _MAX_SIMULATED + 1)
    place = bisect_left(sizes, True, key=lambda size: visible(size) <= loss)
    if place < len(sizes):
        return sizes[place]
    excess = (visible(_MAX_SIMULATED) - rule.allowed) / (loss - rule.allowed)
    needed = _MAX_SIMULATED * excess**2
    return math.ceil(needed) if needed <= MAX_QUESTIONS else None


def model_of_pairs(then: Floats, now: Floats) -> ScoreModel:
    """The model of questions with one score each, from (n,) scores of two runs.

    Noise raises scores as often as it lowers them: it is learnt from what rose, since
    what fell may be the loss that is to be found, and would hide it.
    """
    rose = now > then
    ahead = np.stack([then, np.maximum(then, now)], axis=1)
    back = np.stack([now[rose], then[rose]], axis=1)
    return learn(np.concatenate([ahead, back]), questions=then[:, None])


def model_of_one_run(scores: Floats) -> ScoreModel:
    """The model of questions with one score each (n,): so many of them are presumed to
    change as is typical.

    A score that changes becomes that of another question.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    changed = rng.random(len(scores)) < TYPICAL_CHANGED
    again = np.where(changed, rng.permutation(scores), scores)
    return learn(np.stack([scores, again], axis=1), questions=scores[:, None])


@lru_cache(maxsize=64)
def with_questions(model: ScoreModel, count: int) -> ScoreModel:
    """The model of `count` questions that are as those of `model`: some of them, or
    each several times."""
    places = np.linspace(0, len(model.weights) - 1, count).astype(np.int64)
    return replace(model, weights=model.weights[places])


def _powers(model: ScoreModel, rule: LossRule) -> Floats:
    """(n + 1,): the probabilities that a system that lost 0 to n questions fails; each
    draw has the same questions, runs and noise for every loss."""
    n = len(model.weights)
    rng = np.random.Generator(np.random.PCG64(0))
    healthy = SampledMeans.draw(model, rule.runs, rule.answers, rng)
    broken = means_anew(model, rule.answers, rng, lost=LOST)
    draws = Draws(model.weights, model.weights, healthy, rng, draws=_DRAWS)
    runs = np.full(n, rule.runs - 1)
    before = healthy.before[draws.components, draws.series, rule.runs - 1]
    order = rng.permuted(np.tile(np.arange(n), (len(before), 1)), axis=1)
    looks = {rule.answers: rule.fails}
    if rule.first != rule.answers:
        looks[rule.first] = rule.asks
    fails = np.ones((len(before), n + 1), dtype=np.bool_)
    for answers, p_value in looks.items():
        falls, *reshuffled = draws.falls(runs, np.full(n, answers - 1))
        falls_of_lost = before - broken[draws.components, draws.series, answers - 1]
        variance = float(falls.var(axis=0).sum())
        p_value_of_large = p_value * (1.0 - SMALL_SHARE)
        critical = max(
            critical_value(standardised(drawn, variance), p_value_of_large)
            for drawn in (falls, *reshuffled)
        )
        total = _sums_of_lost(falls, falls_of_lost, order)
        gains = _sums_of_lost(
            np.minimum(falls, 0.0) ** 2, np.minimum(falls_of_lost, 0.0) ** 2, order
        )
        fails &= standard_scores(total, gains, variance) >= critical
        fails &= total / n > rule.allowed
    return np.asarray(fails.mean(axis=0))


def _sums_of_lost(falls: Floats, falls_of_lost: Floats, order: Ints) -> Floats:
    """(draws, n + 1): the sums over the questions where the first 0 to n in `order` are
    lost."""
    differences = np.take_along_axis(falls_of_lost - falls, order, axis=1)
    without_lost = falls.sum(axis=1, keepdims=True)
    from_none = np.pad(differences, ((0, 0), (1, 0)))
    return np.asarray(without_lost + np.cumsum(from_none, axis=1))
