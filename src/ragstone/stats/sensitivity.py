"""The smallest loss that the test of stats/losses.py finds in 4 of 5 runs, by simulating this test.

A loss takes half of their mean score from some questions, drawn at random: many systems that lost so many questions are
drawn from the model of the questions, and tested as the gate would. The number of lost questions is searched for.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.losses import (
    SMALL_SHARE,
    Draws,
    critical_value,
    standard_scores,
    standardised,
)
from ragstone.stats.score_model import SampledMeans, ScoreModel, grid, learn, means_anew

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POWER = 0.8
"""The probability with which a loss is to be found."""
LOST = 0.5
"""The share of its mean score that a lost question loses."""
_DRAWS = 500
_MAX_QUESTIONS = 2000
"""Of more questions, so many are simulated; the loss falls with the root of their number."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a loss fails: its p-value is at most `fails` with all `answers`, and at most `asks` with the first one.

    `allowed` is the fall of the mean that it must exceed. The level is that of `runs` runs.
    """

    fails: float
    asks: float
    answers: int
    allowed: float
    runs: int = 1


def visible_loss(model: ScoreModel, rule: Rule, *, seed: int = 0) -> float | None:
    """The smallest fall of the mean score of the questions that fails with POWER; None: not even the largest."""
    n = len(model.weights)
    few = min(n, _MAX_QUESTIONS)
    simulation = _Simulation(_some(model, few), rule, np.random.Generator(np.random.PCG64(seed)))
    if simulation.power(few) < POWER:
        return None
    lost = bisect_left(range(few + 1), POWER, lo=1, key=simulation.power)
    loss = simulation.loss(lost)
    return loss if few == n else max(rule.allowed, loss * float(np.sqrt(few / n)))


def model_of_pairs(then: Floats, now: Floats) -> ScoreModel:
    """The model of questions with one score each, from (n,) scores of two runs.

    Noise raises scores as often as it lowers them: it is learnt from what rose, since what fell may be the loss that is
    to be found, and would hide it.
    """
    rose = now > then
    ahead = np.stack([then, np.maximum(then, now)], axis=1)
    back = np.stack([now[rose], then[rose]], axis=1)
    return learn(np.concatenate([ahead, back]), of=then[:, None])


def _some(model: ScoreModel, count: int) -> ScoreModel:
    if count == len(model.weights):
        return model
    places = np.linspace(0, len(model.weights) - 1, count).astype(np.int64)
    return ScoreModel(model.weights[places], model.repeated, model.unexpected)


class _Simulation:
    """Runs of a system that lost some questions: each draw has the same questions, runs and noise for every loss."""

    def __init__(self, model: ScoreModel, rule: Rule, rng: np.random.Generator) -> None:
        n = len(model.weights)
        self._mean = float((model.weights @ grid()[0]).mean())
        healthy = SampledMeans.draw(model, rule.runs, rule.answers, rng)
        broken = means_anew(model, rule.answers, rng, lost=LOST)
        draws = Draws(model.weights, model.weights, healthy, rng, draws=_DRAWS)
        runs = np.full(n, rule.runs - 1)
        before = healthy.before[draws.components, draws.series, rule.runs - 1]
        order = rng.permuted(np.tile(np.arange(n), (len(before), 1)), axis=1)
        shown = np.ones((len(before), n + 1), dtype=np.bool_)
        for answers, p_value in {rule.answers: rule.fails, 1: rule.asks if rule.answers > 1 else rule.fails}.items():
            falls, *reshuffled = draws.falls(runs, np.full(n, answers - 1))
            fallen = before - broken[draws.components, draws.series, answers - 1]
            variance = float(falls.var(axis=0).sum())
            critical = max(
                critical_value(standardised(drawn, variance), p_value * (1.0 - SMALL_SHARE))
                for drawn in (falls, *reshuffled)
            )
            total = _sums_of_lost(falls, fallen, order)
            gains = _sums_of_lost(np.minimum(falls, 0.0) ** 2, np.minimum(fallen, 0.0) ** 2, order)
            shown &= (standard_scores(total, gains, variance) >= critical) & (total / n > rule.allowed)
        self._power = shown.mean(axis=0)
        self._questions = n

    def power(self, lost: int) -> float:
        """The probability that a system that lost so many questions fails."""
        return float(self._power[lost])

    def loss(self, lost: int) -> float:
        """By how much the mean score falls where so many questions are lost."""
        return float(LOST * self._mean * lost / self._questions)


def _sums_of_lost(falls: Floats, fallen: Floats, order: Ints) -> Floats:
    """(draws, n + 1): the sums over the questions where the first 0 to n in `order` are lost."""
    more = np.take_along_axis(fallen - falls, order, axis=1)
    return np.asarray(falls.sum(axis=1, keepdims=True) + np.cumsum(np.pad(more, ((0, 0), (1, 0))), axis=1))
