"""The smallest loss that the test of stats/losses.py finds in 4 of 5 runs, by
simulating this test.

A loss takes half of their mean score from some questions. For each number of lost
questions, many systems that lost so many, at random, are drawn from the model of the
questions and tested as the gate would. The smallest number that is found often enough
gives the loss.
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
from ragstone.stats.score_model import (
    SampledMeans,
    ScoreModel,
    grid,
    independent_means,
    learn,
)

POWER = 0.8
"""The probability with which a loss is to be found."""
LOST_SHARE = 0.5
"""The share of its mean score that a lost question loses."""
TYPICAL_SCORES = np.array([1.0] * 8 + [0.7, 0.2])
"""The scores of ten questions, where nothing is known about the system."""
TYPICAL_CHANGED = 0.4
"""The share of the answers that are presumed to change from run to run, where only one
run is known."""
MAX_QUESTIONS = 10_000_000
"""The largest number of questions that is recommended."""

_DRAWS = 500
_MAX_SIMULATED = 2000
"""With more questions, this many are simulated: the part of the smallest loss beyond
the allowed one falls with the square root of their number."""
_MIN_SIMULATED = 5


class LossRule(Struct, frozen=True):
    """When a loss fails, and when the gate asks for more answers first."""

    max_p_to_fail: float
    """The largest p-value with which a loss fails, with all answers."""
    max_p_to_ask: float
    """The largest p-value with which the gate asks again, with the first answers."""
    answers_per_question: int
    """The number of answers to each question in the end."""
    allowed: float
    """The fall of the mean that a loss must exceed."""
    runs_before: int = 1
    """The number of runs that the new run is compared with."""
    first_answers_per_question: int = 1
    """The number of answers to each question before the gate asks again."""


@lru_cache(maxsize=256)  # a run is decided several times with the same level
def visible_loss(model: ScoreModel, rule: LossRule) -> float | None:
    """The smallest fall of the mean score that fails with the probability POWER; None
    if not even that of a system that lost all questions does."""
    n = len(model.weights)
    simulated_count = min(n, _MAX_SIMULATED)
    simulated = with_questions(model, simulated_count)
    powers = _powers(simulated, rule)
    if powers[simulated_count] < POWER:
        return None
    lost_count = bisect_left(powers.tolist(), POWER, lo=1)
    means, _ = grid()
    mean = float((simulated.weights @ means).mean())
    fall = LOST_SHARE * mean * lost_count / simulated_count
    excess = max(0.0, fall - rule.allowed)
    return rule.allowed + excess * math.sqrt(simulated_count / n)


def rows_needed(model: ScoreModel, rule: LossRule, loss: float) -> int | None:
    """How many questions like those of `model` are needed to find `loss` with the
    probability POWER; None if it is allowed, or MAX_QUESTIONS are not enough."""
    if loss <= rule.allowed:
        return None

    def smallest_loss(size: int) -> float:
        smallest = visible_loss(with_questions(model, size), rule)
        return math.inf if smallest is None else smallest

    sizes = range(_MIN_SIMULATED, _MAX_SIMULATED + 1)
    index = bisect_left(sizes, True, key=lambda size: smallest_loss(size) <= loss)
    if index < len(sizes):
        return sizes[index]
    # See _MAX_SIMULATED for the square.
    factor = (smallest_loss(_MAX_SIMULATED) - rule.allowed) / (loss - rule.allowed)
    needed = _MAX_SIMULATED * factor**2
    return math.ceil(needed) if needed <= MAX_QUESTIONS else None


def model_of_pairs(before: Floats, after: Floats) -> ScoreModel:
    """The model of questions with one score each in two runs, (n,).

    Noise is learnt only from the scores that rose, and presumed to lower scores as
    often: those that fell may be the loss that is looked for, and would hide it.
    """
    rose = after > before
    rises = np.stack([before, np.maximum(before, after)], axis=1)
    mirrored_rises = np.stack([after[rose], before[rose]], axis=1)
    return learn(np.concatenate([rises, mirrored_rises]), questions=before[:, None])


def model_of_one_run(scores: Floats) -> ScoreModel:
    """The model of questions with one score each, (n,).

    The share TYPICAL_CHANGED of them is presumed to get the score of another question
    in the next run.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    is_changed = rng.random(len(scores)) < TYPICAL_CHANGED
    next_scores = np.where(is_changed, rng.permutation(scores), scores)
    return learn(np.stack([scores, next_scores], axis=1), questions=scores[:, None])


@lru_cache(maxsize=64)
def with_questions(model: ScoreModel, count: int) -> ScoreModel:
    """The model of `count` questions like those of `model`: some of them, evenly
    spread, or each of them several times."""
    rows = np.linspace(0, len(model.weights) - 1, count).astype(np.int64)
    return replace(model, weights=model.weights[rows])


def _powers(model: ScoreModel, rule: LossRule) -> Floats:
    """(n + 1,): the probability that a system that lost 0, 1 … n questions fails; each
    draw has the same questions, runs and noise for all numbers of lost questions."""
    n = len(model.weights)
    rng = np.random.Generator(np.random.PCG64(0))
    last_before = rule.runs_before - 1
    healthy = SampledMeans.draw(model, rule.runs_before, rule.answers_per_question, rng)
    means_of_lost = independent_means(
        model, rule.answers_per_question, rng, lost=LOST_SHARE
    )
    draws = Draws(model.weights, model.weights, healthy, rng, draws=_DRAWS)
    before = healthy.before[draws.components, draws.series, last_before]
    order = rng.permuted(np.tile(np.arange(n), (len(before), 1)), axis=1)
    max_p_by_answers = {rule.answers_per_question: rule.max_p_to_fail}
    if rule.first_answers_per_question != rule.answers_per_question:
        max_p_by_answers[rule.first_answers_per_question] = rule.max_p_to_ask
    fails = np.ones((len(before), n + 1), dtype=np.bool_)
    for answers, max_p in max_p_by_answers.items():
        falls, *reshuffled = draws.falls(
            np.full(n, last_before), np.full(n, answers - 1)
        )
        after_of_lost = means_of_lost[draws.components, draws.series, answers - 1]
        falls_of_lost = before - after_of_lost
        variance = float(falls.var(axis=0).sum())
        # The second test, for small falls, is not simulated: only its share is left out.
        critical = max(
            critical_value(
                standardised(sampled_falls, variance), max_p * (1.0 - SMALL_SHARE)
            )
            for sampled_falls in (falls, *reshuffled)
        )
        sums = _sums_by_lost(falls, falls_of_lost, order)
        squared_gains = _sums_by_lost(
            np.minimum(falls, 0.0) ** 2, np.minimum(falls_of_lost, 0.0) ** 2, order
        )
        fails &= standard_scores(sums, squared_gains, variance) >= critical
        fails &= sums / n > rule.allowed
    return np.asarray(fails.mean(axis=0))


def _sums_by_lost(healthy: Floats, lost: Floats, order: Ints) -> Floats:
    """(draws, n + 1): the sums over the questions where the first 0, 1 … n in `order`
    are `lost` and the others `healthy`, both (draws, n)."""
    differences = np.take_along_axis(lost - healthy, order, axis=1)
    without_lost = healthy.sum(axis=1, keepdims=True)
    from_none = np.pad(differences, ((0, 0), (1, 0)))
    return np.asarray(without_lost + np.cumsum(from_none, axis=1))
