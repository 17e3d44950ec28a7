"""What the scores of each question would be if nothing changed, learnt from its scores
in several runs.

Each question has a distribution of scores: a beta distribution with a mean and a
concentration, or right and wrong with a probability. How common each of these
distributions is, is learnt from all questions together (nonparametric maximum
likelihood on a grid: N. Laird, "Nonparametric maximum likelihood estimation of a mixing
distribution", JASA 73, 1978); which of them a question may have, from its own scores by
Bayes' rule (empirical Bayes). Answers can also be the same again in the next run, with
a probability that is the same for all questions: an answer that did not change is then
no second observation.
"""

from __future__ import annotations

from functools import cache
from math import lgamma

import numpy as np
from msgspec import Struct

from ragstone.stats.arrays import Floats, Ints

LEVELS = 21
"""Scores are rounded to so many levels, from 0 to 1, wherever their probability is
needed."""

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
"""Of the beta distributions; 0 stands for right or wrong."""
_REPEATED = (0.0, 0.3, 0.6, 0.8, 0.95)
"""The probabilities of an unchanged answer from which the likeliest is taken."""
_BETTER = 1.0
"""By so much must a larger probability of unchanged answers raise the
log-likelihood."""
_UNEXPECTED = 2.0
"""Of so many answers, beside those that are known, the score is presumed to be one that
no distribution explains: even of questions that never failed, one may fail."""
UNEXPECTED_NOW = 12.0
"""So many where only scores before are learnt from. With fewer, an unchanged system
with 12 to 20 questions that are right or wrong fails in .05 to .08 of its runs."""
_PRIOR_QUESTIONS = 2.0
"""The grid's distributions are presumed to be equally common, with the weight of so
many questions."""
_STEPS = 40
_MAX_LEARNT_FROM = 2000
"""How common the distributions are is learnt from so many questions at most, evenly
spread."""
_TERMS = 100
"""Of the continued fraction of the beta distribution."""
_SAMPLED = 128
"""Series of scores that are drawn from each distribution of the grid."""


class ScoreModel(Struct, frozen=True, eq=False):
    """What each of n questions scores while nothing changes."""

    weights: Floats
    """(n, components): the probability of each distribution of the grid for each
    question."""
    repeated: float
    """The probability that an answer is the one of the run before."""
    unexpected: float
    """The probability of a score that no distribution explains."""

    @property
    def variances(self) -> Floats:
        """(n,): the expected variance of a question's scores."""
        probabilities = _probabilities(self.unexpected)
        levels = np.linspace(0.0, 1.0, LEVELS)
        means = probabilities @ levels
        return np.asarray(self.weights @ (probabilities @ levels**2 - means**2))

    def variance_of_change(
        self, before: int, after: int, *, apart: bool = False
    ) -> Floats:
        """(n,): the variance of the mean of `before` scores less that of the `after`
        next ones, if nothing changed.

        `apart`: many runs lie between them, so that no answer of one is an answer of
        the other.
        """
        place = np.arange(before + after)
        sides = np.where(place < before, 1.0 / before, -1.0 / after)
        correlation = self.repeated ** np.abs(place[:, None] - place[None, :])
        if apart:
            correlation[:before, before:] = correlation[before:, :before] = 0.0
        return np.asarray(self.variances * float(sides @ correlation @ sides))


def learn(
    scores: Floats,
    *,
    questions: Floats | None = None,
    unexpected_answers: float = _UNEXPECTED,
) -> ScoreModel:
    """The model of n questions from `scores` (n, runs) in [0, 1], the oldest run first;
    NaN where there is none.

    With `questions` (m, runs) it is that of m questions with these scores, while
    `scores` say how common what is. Of `unexpected_answers` beside those that are
    known, the score is presumed to be one that no distribution explains.
    """
    some = np.linspace(0, len(scores) - 1, min(len(scores), _MAX_LEARNT_FROM)).astype(
        np.int64
    )
    known_answers = int(np.isfinite(scores).sum())
    unexpected = unexpected_answers / (unexpected_answers + known_answers)
    probabilities = _probabilities(unexpected)
    best_likelihood = -np.inf
    repeated = 0.0
    shares = np.zeros(0)
    for probability in _REPEATED if scores.shape[1] > 2 else _REPEATED[:1]:
        likelihoods = _likelihoods(scores[some], probabilities, probability)
        common = _shares(likelihoods)
        likelihood = float(np.log(likelihoods @ common).sum())
        if likelihood > best_likelihood + _BETTER:
            best_likelihood = likelihood
            repeated = probability
            shares = common
    weights = (
        _likelihoods(
            scores if questions is None else questions, probabilities, repeated
        )
        * shares
    )
    return ScoreModel(
        weights / weights.sum(axis=1, keepdims=True), repeated, unexpected
    )


def _shares(likelihoods: Floats) -> Floats:
    """How common each distribution is, by expectation and maximisation."""
    n, components = likelihoods.shape
    shares = np.full(components, 1.0 / components)
    for _ in range(_STEPS):
        weights = shares * ((1.0 / (likelihoods @ shares)) @ likelihoods)
        shares = (weights + _PRIOR_QUESTIONS / components) / (n + _PRIOR_QUESTIONS)
    return shares


def _likelihoods(scores: Floats, probabilities: Floats, repeated: float) -> Floats:
    """(n, components): the probability of each question's scores by each distribution,
    with repeated answers."""
    by_level = probabilities.T
    likelihoods = np.ones((len(scores), by_level.shape[1]))
    previous = np.full(len(scores), np.nan)
    for column in scores.T:
        present = np.isfinite(column)
        stays = np.where(np.isnan(previous), 0.0, repeated)
        new = by_level[levels_of(np.where(present, column, 0.0))]
        same = np.where(column == previous, stays, 0.0)
        by_column = (1.0 - stays)[:, None] * new + same[:, None]
        likelihoods *= np.where(present[:, None], by_column, 1.0)
        previous = np.where(present, column, previous)
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
    """(components, LEVELS): the probability of each level by each distribution, whose
    mean lost the share `lost`."""
    return (1.0 - unexpected) * _expected_probabilities(lost) + unexpected / LEVELS


@cache
def _expected_probabilities(lost: float) -> Floats:
    means, concentrations = grid()
    means = means * (1.0 - lost)
    edges = np.concatenate([[0.0], (np.arange(LEVELS - 1) + 0.5) / (LEVELS - 1), [1.0]])
    binary = concentrations == 0.0
    tight = np.where(binary, 1.0, concentrations)[:, None]
    below = beta_cdf(tight * means[:, None], tight * (1.0 - means[:, None]), edges)
    probabilities = np.diff(below, axis=1)
    probabilities[binary] = 0.0
    probabilities[binary, 0], probabilities[binary, -1] = (
        1.0 - means[binary],
        means[binary],
    )
    return np.asarray(probabilities)


def beta_cdf(a: Floats, b: Floats, x: Floats) -> Floats:
    """The distribution function of Beta(a, b) at `x` in [0, 1]: the regularised
    incomplete beta function.

    By its continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22).
    A gate needs no more of scipy, which takes long to load.
    """
    log_gamma = np.vectorize(lgamma)
    log_scale = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    swap = x > a / (a + b)
    a, b, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1.0 - x, x)
    fraction = np.ones(x.shape)
    for term in range(_TERMS, 0, -1):
        place = a + 2.0 * term
        even = term * (b - term) * x / ((place - 1.0) * place)
        odd = -(a + term) * (a + b + term) * x / (place * (place + 1.0))
        fraction = 1.0 + even / (1.0 + odd / fraction)
    total = 1.0 / (1.0 - (a + b) * x / (a + 1.0) / fraction)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_factor = log_scale + a * np.log(x) + b * np.log1p(-x) - np.log(a)
    below = np.where(x <= 0.0, 0.0, np.exp(log_factor) * total)
    return np.asarray(np.where(swap, 1.0 - below, below))


class SampledMeans(Struct, frozen=True):
    """Means of scores that were drawn from each distribution of the grid, (components,
    drawn, counts)."""

    before: Floats
    """`before[:, :, c]` is the mean of the last c + 1 scores before."""
    after: Floats
    """Those of the first c + 1 scores of an unchanged system after them."""
    anew: Floats
    """Those of the first c + 1 scores of a system whose first answer is new."""

    @classmethod
    def draw(
        cls, model: ScoreModel, before: int, after: int, rng: np.random.Generator
    ) -> SampledMeans:
        """`before` and `after` scores of each distribution."""
        series = _series(
            _probabilities(model.unexpected), model.repeated, before + after, rng
        )
        return cls(
            _running_means(series[:, :, before - 1 :: -1]),
            _running_means(series[:, :, before:]),
            means_anew(model, after, rng),
        )


def means_anew(
    model: ScoreModel, after: int, rng: np.random.Generator, *, lost: float = 0.0
) -> Floats:
    """(components, drawn, after): means of the first scores of a system whose mean is
    lower by the share `lost`."""
    return _running_means(
        _series(_probabilities(model.unexpected, lost), model.repeated, after, rng)
    )


def _series(
    probabilities: Floats, repeated: float, length: int, rng: np.random.Generator
) -> Floats:
    """(components, drawn, length): series of scores, each of which is the one before
    with probability `repeated`.

    Few series are drawn of each distribution, and used for many questions, so that a
    common error would not cancel out: each place has each score as often as its
    probability says.
    """
    components = len(probabilities)
    levels = drawn_choices(np.repeat(probabilities, length, axis=0), _SAMPLED, rng)
    scores = (
        (levels / (LEVELS - 1)).reshape(components, length, _SAMPLED).transpose(0, 2, 1)
    )
    stays = rng.random(scores.shape) < repeated
    for place in range(1, length):
        scores[:, :, place] = np.where(
            stays[:, :, place], scores[:, :, place - 1], scores[:, :, place]
        )
    return scores


def drawn_choices(probabilities: Floats, draws: int, rng: np.random.Generator) -> Ints:
    """(n, draws): for each row of `probabilities` (n, choices), each choice as often as
    it says, in random order.

    A systematic sample (W. Madow and L. Madow, Annals of Mathematical Statistics 15,
    1944): the expected number of times is exact, and the number differs from it by less
    than one.
    """
    n, choices = probabilities.shape
    bounds = np.floor(np.cumsum(probabilities, axis=1) * draws + rng.random((n, 1)))
    bounds[:, -1] = draws
    times = np.diff(np.minimum(bounds, draws), axis=1, prepend=0.0).astype(np.int64)
    drawn = np.repeat(np.tile(np.arange(choices), n), times.ravel())
    return rng.permuted(drawn.reshape(n, draws), axis=1)


def _running_means(scores: Floats) -> Floats:
    return np.asarray(np.cumsum(scores, axis=2) / np.arange(1, scores.shape[2] + 1))
