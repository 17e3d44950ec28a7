"""Anytime-valid inference for the mean of a finite set: valid at every look, for any stopping rule and any prediction.

Values are drawn one by one without replacement, each with a known probability. With every draw a gambler bets that the
mean of the whole set is above m, with wealth that can't grow in expectation if that is false. If it ever reaches
1/alpha, m is rejected. By Ville's inequality, the probability of a false rejection at any look is at most alpha.
Predictions of the values (`controls`, `noise`) and the probabilities only say how soon it gets there.

Sources: S. Shekhar, Z. Xu, Z. Lipton, P. Liang, A. Ramdas, Risk-limiting financial audits via weighted sampling without
replacement, UAI 2023 (bets, control variates); I. Waudby-Smith, A. Ramdas, Estimating means of bounded random variables
by betting, JRSS B 86 (2024), Theorem 3; D. Raj, Some estimators in sampling with varying probabilities without
replacement, JASA 51 (1956): the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CAP = 0.98
_PRIOR = 5.0
"""Draws that the prediction counts as, when the next bet is sized."""
_SMALLEST_GAP = 0.02
_STEPS = 30


@dataclass(frozen=True)
class Draws:
    """The first n of N values, in the order in which they were drawn; n may be 0.

    The next one is drawn with a probability in proportion to its weight among those that are left. `weights`,
    `controls` (predicted values), `noise` (predicted squared errors of these), `low` and `high` (limits of each value)
    have N elements, in the same order, and may not depend on `values` (n,).
    """

    values: Floats
    weights: Floats
    controls: Floats
    noise: Floats
    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        """Raise ValueError for values that are not finite, or out of their limits."""
        n = len(self.values)
        inside = (self.values >= self.low[:n] - 1e-9) & (self.values <= self.high[:n] + 1e-9)
        if not np.all(inside):  # also for NaN
            raise ValueError("values must be finite and within their limits")

    @property
    def complete(self) -> bool:
        return len(self.values) == len(self.weights)

    @cached_property
    def probabilities(self) -> Floats:
        """The probability (N,) with which each value was drawn when it was, among those that were left."""
        return np.asarray(self.weights / _sums_from(self.weights))

    @cached_property
    def factors(self) -> Floats:
        """The factors (n,) by which the values count in the estimate, less their predictions; 1/n if weights are equal.

        Raj's ordered estimator: the mean of unbiased estimates, one from each draw. With n = N, it is the exact mean.
        """
        n, total = len(self.values), len(self.weights)
        if self.complete:
            return np.full(n, 1.0 / total)
        left = total - np.arange(n, dtype=np.float64)  # before each draw
        share = total * (total - n) / (max(n, 1) * left * (left - 1.0))  # of each draw's estimate; the sum is 1
        return np.asarray((share / self.probabilities[:n] + _sums_from(share) - share) / total)

    @property
    def estimate(self) -> float:
        """The estimated mean of all N values, unbiased for any fixed n, whatever was predicted."""
        return float(self.controls.mean() + self.factors @ (self.values - self.controls[: len(self.values)]))

    def lower(self, alpha: float, aim: float) -> float:
        """A lower limit of the mean of all N; over all n together, it is wrong with probability `alpha` at most.

        The bets are the best for showing that the mean is above `aim`, which may not depend on `values`.
        """
        low, high = self._least, self.estimate
        for _ in range(_STEPS if high > low else 0):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.shown_above(middle, alpha, aim) else (low, middle)
        return low

    def upper(self, alpha: float, aim: float) -> float:
        """An upper limit of the mean of all N, as `lower`."""
        return -self.mirrored.lower(alpha, -aim)

    def shown_above(self, m: float, alpha: float, aim: float) -> bool:
        """Whether `m` is rejected: the mean of all N is at least m. If so, any lower m is rejected too."""
        if self._least >= m:
            return True
        estimates, least, variances = self._terms
        before = np.arange(len(estimates))
        seen = np.concatenate([[0.0], np.cumsum(estimates - aim)])[: len(estimates)]
        hoped = max(float(self.controls.mean()) - aim, 2.0 * _SMALLEST_GAP)
        gap = np.maximum((_PRIOR * hoped + seen) / (_PRIOR + before), _SMALLEST_GAP)
        bets = np.minimum(gap / (variances + gap**2), _CAP / np.maximum(m - least, 1e-9))
        wealth = np.cumsum(np.log1p(bets * (estimates - m)))
        return bool(len(wealth) and wealth.max() >= math.log(1.0 / alpha))

    @cached_property
    def mirrored(self) -> Draws:
        """The same draws of the values with the other sign."""
        return Draws(-self.values, self.weights, -self.controls, self.noise, -self.high, -self.low)

    @cached_property
    def _least(self) -> float:
        """The mean if all values that are left were as low as they can be."""
        return float((self.values.sum() + self.low[len(self.values) :].sum()) / len(self.weights))

    @cached_property
    def _terms(self) -> tuple[Floats, Floats, Floats]:
        """Of each draw: its unbiased estimate of the mean, the least that this could be, and its predicted variance."""
        n, total = len(self.values), len(self.weights)
        errors, left = self.values - self.controls[:n], _sums_from(self.weights)
        known = self.controls.mean() + (np.cumsum(errors) - errors) / total
        worst = np.maximum.accumulate(((self.controls - self.low) / self.weights)[::-1])[::-1] * left / total
        variances = _sums_from(self.noise / self.weights) * left / total**2
        predicted, prior = self.noise[:n], 3.0 * self.noise.mean() + 1e-12
        scale = (prior + np.cumsum(errors**2) - errors**2) / (prior + np.cumsum(predicted) - predicted)
        return known + errors / (self.probabilities[:n] * total), known - worst[:n], variances[:n] * scale


def _sums_from(values: Floats) -> Floats:
    """The sum of each value and all that follow it."""
    return np.asarray(np.cumsum(values[::-1])[::-1])
