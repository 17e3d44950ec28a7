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
    RESHUFFLED,
    SMALL_SHARE,
    Draws,
    critical_value,
    draw_components,
    standardised,
)
from ragstone.stats.score_model import SampledMeans, ScoreModel, grid, learn, means_anew

Floats = NDArray[np.float64]

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
        self._rule = rule
        self._mean = float((model.weights @ grid()[0]).mean())
        healthy = SampledMeans.draw(model, rule.runs, rule.answers, rng)
        broken = means_anew(model, rule.answers, rng, lost=LOST)
        components = draw_components(model.weights, _DRAWS, rng)
        series = rng.integers(0, healthy.before.shape[1], (_DRAWS, n))
        before = healthy.before[components, series, rule.runs - 1]
        self._order = rng.permuted(np.tile(np.arange(n), (_DRAWS, 1)), axis=1)
        self._looks = []
        for answers, p_value in {rule.answers: rule.fails, 1: rule.asks if rule.answers > 1 else rule.fails}.items():
            falls = before - healthy.after[components, series, answers - 1]
            fallen = before - broken[components, series, answers - 1]
            variance = float(falls.var(axis=0).sum())
            counts = np.full(n, answers - 1)
            draws = Draws(
                model.weights, model.weights, healthy, np.full(n, rule.runs - 1), counts, np.ones(n), draws=_DRAWS
            )
            p_value *= 1.0 - SMALL_SHARE
            critical = critical_value(standardised(falls, variance), p_value)
            for share in RESHUFFLED:
                reshuffled = standardised(draws.falls(share, rng), variance)
                critical = max(critical, critical_value(reshuffled, p_value))
            self._looks.append((falls, fallen, variance, critical))

    def power(self, lost: int) -> float:
        """The probability that a system that lost so many questions fails."""
        shown = np.ones(_DRAWS, dtype=np.bool_)
        for falls, fallen, variance, critical in self._looks:
            now = np.where(self._order < lost, fallen, falls)
            shown &= (standardised(now, variance) >= critical) & (now.mean(axis=1) > self._rule.allowed)
        return float(shown.mean())

    def loss(self, lost: int) -> float:
        """By how much the mean score falls where so many questions are lost."""
        return float(LOST * self._mean * lost / self._order.shape[1])
