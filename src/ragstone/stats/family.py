"""Decides at once whether several means are at least their bounds.

The probability that any mean that is at its bound is decided `below` is at most alpha over the whole family, by
step-down min-P (Westfall and Young 1993, algorithm 2.8). Each mean is tested by Gaffke's bound; joint sign flips show
how the tests depend on each other, so that correlated ones lose less power than with Bonferroni or Holm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.bounded_mean import Blocks, blocks_of, p_mean_at_least, p_mean_at_most
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import checked, mean_interval, reached
from ragstone.stats.normal import normal_quantile
from ragstone.stats.signflip import flipped_sums, on_grid, step_down, upper_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS = 4096
POWER = 0.8
MAX_SAMPLES = 1_000_000
"""A need for more samples than this is reported as None, because no golden set is that large."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The hypothesis that the mean of `values` (n,) is at least `bound`.

    `units` (n,) are sample indices, shared by all hypotheses: values with the same index are dependent. `bounds` is the
    range of the values. `groups` (n,) labels related samples, with one numbering for all hypotheses; None means that
    samples are independent. `weight` is the hypothesis's share of alpha relative to the others.
    """

    name: str
    values: Floats
    units: Ints
    bound: float
    bounds: tuple[float, float] = (0.0, 1.0)
    groups: Ints | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one mean.

    `p_below` is the one-sided p-value before adjustment: a small one is evidence that the mean is below the bound.
    `below` is adjusted over the family; `above` is not, since a clean pass needs all means above (an intersection-union
    test). `n_more` more samples would decide it with 80 % power if the estimate is right (0: already decided, None: no
    attainable number). `detectable` is the drop that would be found in 4 of 5 runs; None if it is unknown, or if it is
    no drop. `p_adjusted` is None if it was decided apart from the others. A drop is `suspected` at a larger p-value
    than it is shown at.
    """

    estimate: float
    interval: Estimate
    p_below: float
    below: bool
    above: bool
    n: int
    n_more: int | None
    detectable: float | None = None
    p_adjusted: float | None = 1.0
    suspected: bool = False


def decide(
    hypotheses: Sequence[Hypothesis], *, alpha: float = 0.05, confidence: float | None = None, seed: int = 0
) -> tuple[Decision, ...]:
    """Decide all `hypotheses` together, with family-wise error rate `alpha` over the `below` decisions.

    Intervals, and `above`, are at `confidence`, at most 1 - alpha; that is also the default.
    Raises ValueError for values that are empty, not finite, out of bounds or not as many as their units.
    """
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must be in (0, 0.5), got {alpha}")
    ready = [_checked(hypothesis) for hypothesis in hypotheses]
    p_below, adjusted = adjusted_p_values(ready, seed=seed)
    total = sum(h.weight for h in ready)
    return tuple(
        _decision(h, float(p), float(p_adjusted), alpha, alpha * h.weight / total, confidence or 1.0 - alpha)
        for h, p, p_adjusted in zip(ready, p_below, adjusted, strict=True)
    )


def adjusted_p_values(hypotheses: Sequence[Hypothesis], *, seed: int = 0) -> tuple[Floats, Floats]:
    """Marginal (m,) and adjusted (m,) p-values of the m hypotheses that a mean is at least its bound."""
    if not hypotheses:
        return np.zeros(0), np.zeros(0)
    null = upper_ranks(-flipped_sums(_unit_totals(hypotheses), draws=DRAWS, seed=seed))
    p = np.array([p_mean_at_least(_blocks(h), h.bound, h.bounds) for h in hypotheses])
    return p, step_down(p, null, np.array([h.weight for h in hypotheses]))


def _checked(hypothesis: Hypothesis) -> Hypothesis:
    values = checked(hypothesis.values, hypothesis.bounds, hypothesis.groups)
    if np.shape(hypothesis.units) != values.shape:
        raise ValueError(f"{hypothesis.name}: {np.shape(hypothesis.units)} units for {values.shape} values")
    if np.min(hypothesis.units) < 0 or (hypothesis.groups is not None and np.min(hypothesis.groups) < 0):
        raise ValueError(f"{hypothesis.name}: units and groups must not be negative")
    if not hypothesis.weight > 0.0:
        raise ValueError(f"{hypothesis.name}: a weight must be above 0, got {hypothesis.weight}")
    return replace(hypothesis, values=values)


def _unit_totals(hypotheses: Sequence[Hypothesis]) -> Floats:
    """(rows, m): values minus their bound, summed over what is flipped together (a sample, or a group if given)."""
    top = 1 + max(int(h.units.max()) for h in hypotheses)
    row_of = np.arange(top)
    for h in hypotheses:
        if h.groups is not None:
            row_of[h.units] = top + h.groups
    _, row_of = np.unique(row_of, return_inverse=True)
    totals = np.zeros((int(row_of.max()) + 1, len(hypotheses)))
    for j, h in enumerate(hypotheses):
        totals[:, j] = np.bincount(row_of[h.units], weights=on_grid(h.values - h.bound), minlength=len(totals))
    return totals


def _blocks(h: Hypothesis) -> Blocks:
    return blocks_of(h.values, h.groups)


def _decision(
    h: Hypothesis, p_below: float, adjusted: float, alpha: float, level: float, confidence: float
) -> Decision:
    interval = mean_interval(h.values, confidence=confidence, bounds=h.bounds, groups=h.groups)
    below = adjusted <= alpha and interval.estimate < h.bound
    above = interval.low >= h.bound and not below
    return Decision(
        estimate=interval.estimate,
        interval=consistent(interval, h.bound, below=below),
        p_below=p_below,
        below=below,
        above=above,
        n=len(h.values),
        n_more=0 if below or above else samples_to_settle(h, level=level, alpha=1.0 - confidence),
        p_adjusted=adjusted,
    )


def samples_to_settle(h: Hypothesis, *, level: float, alpha: float) -> int | None:
    """How many more values like these decide the hypothesis on the side of their mean, with probability `POWER`.

    `level` is its error rate below the bound. Computes the p-values of the decision for more of the same blocks, with
    the mean moved towards the bound by the margin that `POWER` requires.
    """
    estimate = float(np.mean(h.values))
    gap = abs(estimate - h.bound)
    n = len(h.values)
    blocks, far = _blocks(h), reached(h.values, h.bounds)
    deviation = deviation_of(h)

    def settled(total: int) -> bool:
        luck = normal_quantile(POWER) * deviation / math.sqrt(total)
        if luck >= gap:
            return False
        more = replace(blocks, counts=blocks.counts * (total / n), n=total, n_blocks=round(blocks.n_blocks * total / n))
        if estimate < h.bound:
            return p_mean_at_least(more, h.bound - luck, h.bounds) <= level
        return p_mean_at_most(more, h.bound + luck, far) <= alpha / 2.0

    if gap == 0.0 or not settled(MAX_SAMPLES):
        return None
    too_few, enough = n, MAX_SAMPLES
    while enough - too_few > max(1, too_few // 100):
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if settled(middle) else (middle, enough)
    return max(1, enough - n)


def consistent(interval: Estimate, bound: float, *, below: bool) -> Estimate:
    """`interval`, with its upper limit moved to the bound if it disagrees with the decision `below`.

    The decision is adjusted over the family, the interval is not.
    """
    if below and interval.high >= bound:
        return replace(interval, high=float(np.nextafter(bound, -np.inf)))
    if not below and interval.high < bound:
        return replace(interval, high=bound)
    return interval


def deviation_of(h: Hypothesis) -> float:
    """The standard deviation of one value, such that the mean of n values has standard error deviation / sqrt(n)."""
    blocks = _blocks(h)
    if blocks.n_blocks < 2:
        return 0.0
    mean = float(np.mean(h.values))
    squares = float(np.sum(blocks.counts * (blocks.totals - blocks.sizes * mean) ** 2))
    return math.sqrt(squares * blocks.n_blocks / (blocks.n_blocks - 1) / blocks.n)
