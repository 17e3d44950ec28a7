"""What the scores of each question would be if nothing changed, learnt from its scores
in several runs.

Each question has a distribution of scores: a beta distribution with a mean and a
concentration, or right and wrong with a probability. How common each of these
distributions is, is learnt from all questions together (nonparametric maximum
likelihood on a grid: N. Laird, "Nonparametric maximum likelihood estimation of a mixing
distribution", JASA 73, 1978); which of them a question may have, from its own scores by
Bayes' rule (empirical Bayes). An answer can also be repeated in the next run, with a
probability that is the same for all questions; a repeated answer is no second
observation.
"""

from __future__ import annotations

from functools import cache
from math import lgamma

import numpy as np
from msgspec import Struct

from ragstone.stats.arrays import Floats, Ints

LEVELS = 21
"""The number of levels, from 0 to 1, that scores are rounded to where their probability
is needed."""

_MEANS = (
    0.004,
    0.03,
    0.08,
    0.15,
    0.25,
    0.35,
    0.45,
    0.55,
    0.65,
    0.75,
    0.85,
    0.92,
    0.97,
    0.996,
)
_CONCENTRATIONS = (0.0, 2.0, 8.0, 40.0, 400.0)
"""The concentrations of the beta distributions; 0 stands for right or wrong."""
_REPEAT_PROBABILITIES = (0.0, 0.3, 0.6, 0.8, 0.95)
"""The probabilities of a repeated answer that are tried."""
_MIN_GAIN = 1.0
"""A larger probability of repeated answers is taken only if it raises the
log-likelihood by more than this."""
_UNEXPECTED_ANSWERS = 2.0
"""This many further answers are presumed to have a score that no distribution explains:
even a question that never failed may fail."""
UNEXPECTED_NOW = 12.0
"""_UNEXPECTED_ANSWERS where only scores before are learnt from. With fewer, an unchanged system
with 12 to 20 questions that are right or wrong fails in 5 to 8 % of its runs."""
_PRIOR_QUESTIONS = 2.0
"""The distributions of the grid are presumed to be equally common, with the weight of
this many questions."""
_EM_STEPS = 40
_MAX_LEARNT_QUESTIONS = 2000
"""How common the distributions are is learnt from at most this many questions, evenly
spread."""
_FRACTION_TERMS = 100
"""Terms of the continued fraction of the beta distribution."""
_SERIES = 128
"""The number of series of scores that are drawn from each distribution of the grid."""


class ScoreModel(Struct, frozen=True, eq=False):
    """What each of n questions scores while nothing changes.

    The distributions of the grid (see `grid`) are called components.
    """

    weights: Floats
    """(n, components): the probability that each question has each distribution."""
    repeated: float
    """The probability that an answer is that of the run before."""
    unexpected: float
    """The probability of a score that no distribution explains."""

    @property
    def variances(self) -> Floats:
        """(n,): the expected variance of a question's scores."""
        probabilities = _probabilities(self.unexpected)
        levels = np.linspace(0.0, 1.0, LEVELS)
        means = probabilities @ levels
        return self.weights @ (probabilities @ levels**2 - means**2)

    def variance_of_change(
        self, before: int, after: int, *, is_apart: bool = False
    ) -> Floats:
        """(n,): the variance of the mean of `before` scores less that of the `after`
        next ones, if nothing changed.

        With `is_apart`, so many runs lie between them that no answer is repeated from
        before to after.
        """
        runs = np.arange(before + after)
        coefficients = np.where(runs < before, 1.0 / before, -1.0 / after)
        # Answers n runs apart are the same if n answers in a row are repeated.
        correlation = self.repeated ** np.abs(runs[:, None] - runs[None, :])
        if is_apart:
            correlation[:before, before:] = 0.0
            correlation[before:, :before] = 0.0
        factor = float(coefficients @ correlation @ coefficients)
        return self.variances * factor


def learn(
    scores: Floats,
    *,
    questions: Floats | None = None,
    unexpected_answers: float = _UNEXPECTED_ANSWERS,
) -> ScoreModel:
    """The model of n questions from `scores` (n, runs) in [0, 1], the oldest run first;
    NaN where there is none.

    With `questions` (m, runs), it is the model of m questions with these scores, while
    `scores` only say how common each distribution is. `unexpected_answers` further
    answers are presumed to have a score that no distribution explains.
    """
    learnt_count = min(len(scores), _MAX_LEARNT_QUESTIONS)
    learnt = np.linspace(0, len(scores) - 1, learnt_count).astype(np.int64)
    known_answers = int(np.isfinite(scores).sum())
    unexpected = unexpected_answers / (unexpected_answers + known_answers)
    probabilities = _probabilities(unexpected)
    best_likelihood = -np.inf
    repeated = 0.0
    shares = np.zeros(0)
    # Two runs can't tell repeated answers from questions that score the same.
    can_repeat = scores.shape[1] > 2
    for candidate in _REPEAT_PROBABILITIES if can_repeat else (0.0,):
        likelihoods = _likelihoods(scores[learnt], probabilities, candidate)
        candidate_shares = _shares(likelihoods)
        likelihood = float(np.log(likelihoods @ candidate_shares).sum())
        if likelihood > best_likelihood + _MIN_GAIN:
            best_likelihood = likelihood
            repeated = candidate
            shares = candidate_shares
    if questions is None:
        questions = scores
    weights = _likelihoods(questions, probabilities, repeated) * shares
    normalised = weights / weights.sum(axis=1, keepdims=True)
    return ScoreModel(normalised, repeated, unexpected)


def _shares(likelihoods: Floats) -> Floats:
    """(components,): how common each distribution is, by expectation maximisation from
    `likelihoods` (n, components)."""
    n, components = likelihoods.shape
    shares = np.full(components, 1.0 / components)
    for _ in range(_EM_STEPS):
        weights = shares * ((1.0 / (likelihoods @ shares)) @ likelihoods)
        shares = (weights + _PRIOR_QUESTIONS / components) / (n + _PRIOR_QUESTIONS)
    return shares


def _likelihoods(scores: Floats, probabilities: Floats, repeated: float) -> Floats:
    """(n, components): the probability of each question's `scores` (n, runs) by each
    distribution, if an answer is `repeated` with this probability."""
    by_level = probabilities.T
    likelihoods = np.ones((len(scores), by_level.shape[1]))
    previous = np.full(len(scores), np.nan)
    for column in scores.T:
        is_present = np.isfinite(column)
        can_repeat = np.where(np.isnan(previous), 0.0, repeated)
        new = by_level[levels_of(np.where(is_present, column, 0.0))]
        same = np.where(column == previous, can_repeat, 0.0)
        by_column = (1.0 - can_repeat)[:, None] * new + same[:, None]
        likelihoods *= np.where(is_present[:, None], by_column, 1.0)
        previous = np.where(is_present, column, previous)
    return likelihoods


def levels_of(scores: Floats) -> Ints:
    """The levels, from 0 to LEVELS - 1, nearest to scores in [0, 1]."""
    return np.clip(np.rint(scores * (LEVELS - 1)), 0, LEVELS - 1).astype(np.int64)


@cache
def grid() -> tuple[Floats, Floats]:
    """The means and the concentrations of the grid's distributions, (components,)
    each."""
    means, concentrations = np.meshgrid(_MEANS, _CONCENTRATIONS, indexing="ij")
    return means.ravel(), concentrations.ravel()


def _probabilities(unexpected: float, lost: float = 0.0) -> Floats:
    """(components, LEVELS): the probability of each level by each distribution, after
    its mean lost the share `lost`."""
    return (1.0 - unexpected) * _expected_probabilities(lost) + unexpected / LEVELS


@cache
def _expected_probabilities(lost: float) -> Floats:
    """`_probabilities` without unexpected scores."""
    full_means, concentrations = grid()
    means = full_means * (1.0 - lost)
    # Half-way between two levels; the outer levels are half as wide.
    edges = np.concatenate([[0.0], (np.arange(LEVELS - 1) + 0.5) / (LEVELS - 1), [1.0]])
    is_binary = concentrations == 0.0
    # Any concentration will do for the binary ones, which are overwritten below.
    kappa = np.where(is_binary, 1.0, concentrations)[:, None]
    below = beta_cdf(kappa * means[:, None], kappa * (1.0 - means[:, None]), edges)
    probabilities = np.diff(below, axis=1)
    probabilities[is_binary] = 0.0
    probabilities[is_binary, 0] = 1.0 - means[is_binary]
    probabilities[is_binary, -1] = means[is_binary]
    return probabilities


def beta_cdf(a: Floats, b: Floats, x: Floats) -> Floats:
    """The distribution function of Beta(a, b) at `x` in [0, 1]: the regularised
    incomplete beta function.

    By its continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22).
    It spares a gate the import of scipy.special, which takes longer than a small run.
    """
    log_gamma = np.vectorize(lgamma)
    log_scale = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    # The fraction converges fast below the mean; above, the distribution is mirrored.
    is_mirrored = x > a / (a + b)
    a, b = np.where(is_mirrored, b, a), np.where(is_mirrored, a, b)
    x = np.where(is_mirrored, 1.0 - x, x)
    fraction = np.ones(x.shape)
    for term in range(_FRACTION_TERMS, 0, -1):
        c = a + 2.0 * term
        even = term * (b - term) * x / ((c - 1.0) * c)
        odd = -(a + term) * (a + b + term) * x / (c * (c + 1.0))
        fraction = 1.0 + even / (1.0 + odd / fraction)
    total = 1.0 / (1.0 - (a + b) * x / (a + 1.0) / fraction)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_factor = log_scale + a * np.log(x) + b * np.log1p(-x) - np.log(a)
    below = np.where(x <= 0.0, 0.0, np.exp(log_factor) * total)
    return np.where(is_mirrored, 1.0 - below, below)


class SampledMeans(Struct, frozen=True):
    """Means of scores that were drawn from each distribution of the grid: arrays
    (components, series, counts), of which ``[:, :, c]`` are means of c + 1 scores."""

    before: Floats
    """Means of the last scores before the change."""
    after: Floats
    """Means of the first scores of an unchanged system after them, which may repeat the
    last answer."""
    after_independent: Floats
    """Means of the first scores of a system that repeats no answer from before."""

    @classmethod
    def draw(
        cls, model: ScoreModel, before: int, after: int, rng: np.random.Generator
    ) -> SampledMeans:
        """Draw series of `before` and `after` scores from each distribution."""
        series = _draw_series(
            _probabilities(model.unexpected), model.repeated, before + after, rng
        )
        return cls(
            _running_means(series[:, :, before - 1 :: -1]),
            _running_means(series[:, :, before:]),
            independent_means(model, after, rng),
        )


def independent_means(
    model: ScoreModel, after: int, rng: np.random.Generator, *, lost: float = 0.0
) -> Floats:
    """(components, series, after): means of the first scores of a system that repeats
    no answer from before, and whose mean is lower by the share `lost`."""
    probabilities = _probabilities(model.unexpected, lost)
    return _running_means(_draw_series(probabilities, model.repeated, after, rng))


def _draw_series(
    probabilities: Floats, repeated: float, length: int, rng: np.random.Generator
) -> Floats:
    """(components, series, length): series of scores, each of which repeats the one
    before with the probability `repeated`.

    Few series are drawn from each distribution and used for many questions, so that
    their errors would not cancel out: at each place, each score is drawn as often as
    its probability says.
    """
    components = len(probabilities)
    levels = drawn_choices(np.repeat(probabilities, length, axis=0), _SERIES, rng)
    by_place = (levels / (LEVELS - 1)).reshape(components, length, _SERIES)
    scores = by_place.transpose(0, 2, 1)
    is_repeated = rng.random(scores.shape) < repeated
    for place in range(1, length):
        scores[:, :, place] = np.where(
            is_repeated[:, :, place], scores[:, :, place - 1], scores[:, :, place]
        )
    return scores


def drawn_choices(probabilities: Floats, draws: int, rng: np.random.Generator) -> Ints:
    """(n, draws): for each row of `probabilities` (n, choices), each choice as often as
    its probability says, in random order.

    A systematic sample (W. Madow and L. Madow, Annals of Mathematical Statistics 15,
    1944): the number of times is right on average, and off by less than one.
    """
    n, choices = probabilities.shape
    bounds = np.floor(np.cumsum(probabilities, axis=1) * draws + rng.random((n, 1)))
    bounds[:, -1] = draws
    times = np.diff(np.minimum(bounds, draws), axis=1, prepend=0.0).astype(np.int64)
    indices = np.repeat(np.tile(np.arange(choices), n), times.ravel())
    return rng.permuted(indices.reshape(n, draws), axis=1)


def _running_means(scores: Floats) -> Floats:
    counts = np.arange(1, scores.shape[2] + 1)
    return np.cumsum(scores, axis=2) / counts
