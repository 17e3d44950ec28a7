"""The gap between the means of two sets of questions, one of which can be learnt, at one release after another.

The interval of release k has the level ALPHA / (k (k + 1)). These levels add up to ALPHA over any number of releases,
so by the union bound all intervals hold together with 1 - ALPHA, however many there will be. Thresholdout (C. Dwork et
al., "The reusable holdout", Science 349, 2015) adds noise instead, and finds less: see `bench/sealed.py`.

The limits of a difference follow from those of the means, whose distances add up as squares: G. Zou and A. Donner,
"Construction of confidence limits about effect measures", Statistics in Medicine 27 (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

from ragstone.stats.estimate import Estimate

ALPHA = 0.05
ALARM = 0.05
"""The chance that one release without a gap exceeds its limit. As releases have most of their questions and answers in
common, a year of weekly ones has less than one false alarm, in four metrics together."""

ROUNDING = 0.01
"""The step in which means of sealed questions are released."""

Means = tuple[Estimate, Estimate]
"""The mean of the set that can be learnt, and that of the other one."""


@dataclass(frozen=True, slots=True)
class Gap:
    """By how much the set that can be learnt is better, or has become better.

    `low` and `high` hold together with those of all other releases, with 1 - ALPHA. If there is no gap, this release
    exceeds `limit` with probability ALARM.
    """

    estimate: float
    low: float
    high: float
    limit: float

    def alarms(self, allowed: float, *, before: bool) -> bool:
        """Whether it is shown, and more than is `allowed`; if it was `before`, until it is below half of both."""
        return self.estimate > max(self.limit, allowed) / (2.0 if before else 1.0)


def gap(now: Means, release: int, first: Means | None = None, *, lower_is_better: bool = False) -> Gap:
    """The gap at release number `release`, or its growth since the `first` one.

    Growth takes all four means to be independent, which is wide: the same questions are asked each time.
    """
    higher, lower = ([now[0]], [now[1]]) if first is None else ([now[0], first[1]], [now[1], first[0]])
    if lower_is_better:
        higher, lower = lower, higher
    estimate = sum(one.estimate for one in higher) - sum(one.estimate for one in lower)
    unit = float(ndtri(0.975))
    rounded = len(higher) * ROUNDING**2 / 12.0

    def error(down: list[Estimate], up: list[Estimate]) -> float:
        distances = [*(one.estimate - one.low for one in down), *(one.high - one.estimate for one in up)]
        return math.sqrt(rounded + sum((distance / unit) ** 2 for distance in distances))

    below, above, wide = error(higher, lower), error(lower, higher), float(ndtri(1.0 - spent(release) / 2.0))
    return Gap(estimate, estimate - wide * below, estimate + wide * above, float(ndtri(1.0 - ALARM)) * below)


def spent(release: int) -> float:
    """The part of ALPHA that this release has, from 1."""
    return ALPHA / (release * (release + 1.0))


def power(seen: int, sealed: int, true: float, *, sd: float, drawn: bool) -> float:
    """The probability that one release finds a gap of `true`, with scores of standard deviation `sd`.

    `drawn`: the gap itself is tested, else its growth, which has twice the variance.
    """
    error = sd * math.sqrt((1.0 / seen + 1.0 / sealed) * (1.0 if drawn else 2.0))
    return float(ndtr(true / error - ndtri(1.0 - ALARM)))


def released(found: Estimate) -> Estimate:
    """`found` at 95 %, to be released: the mean is rounded, and the distances of its limits up, to a tenth of that."""
    mean, fine = round(found.estimate / ROUNDING) * ROUNDING, ROUNDING / 10.0
    below, above = (
        math.ceil(distance / fine - 1e-9) * fine
        for distance in (found.estimate - found.low, found.high - found.estimate)
    )
    low, high = (round(min(1.0, max(0.0, limit)), 6) for limit in (mean - below, mean + above))
    return Estimate(round(mean, 6), low, high, found.confidence, found.method, found.n)
