"""The decision over several hypotheses at once.

Each hypothesis says that a mean is at least its bound. The chance that any true one is decided `below` is at most
alpha over the whole family: step-down min-P (Westfall and Young 1993, algorithm 2.8), whose null distribution comes
from joint sign flips, so hypotheses that move together cost less than Bonferroni or Holm would charge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ragstone.stats.bounded_mean import Blocks, blocks_of, p_mean_at_least, p_mean_at_most
from ragstone.stats.intervals import MeanInterval, checked, mean_interval
from ragstone.stats.signflip import flipped_sums, on_grid, upper_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS = 4096
POWER = 0.8
MOST_SAMPLES = 1_000_000
"""A need for more samples than this is reported as None: no golden set settles it."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """ "The mean of `values` (n,) is at least `bound`."

    `units` (n,) are indices of the samples, shared over hypotheses: values with one index move together. `bounds`
    holds every value. `groups` (n,) labels samples that belong together; None: every sample stands for itself.
    """

    name: str
    values: Floats
    units: Ints
    bound: float
    bounds: tuple[float, float] = (0.0, 1.0)
    groups: Ints | None = None

    @property
    def paired(self) -> bool:
        """Whether the values are differences, for which 0 means "unchanged"."""
        return self.bounds[0] < 0.0 < self.bounds[1]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the data say about one hypothesis.

    `p_below` and `p_above` are one-sided p-values before adjustment: small ones are evidence that the mean lies below
    or above the bound. `below` is adjusted over the family; `above` is not, since all must be above at once for a
    clean pass (an intersection-union test). `interval` lies wholly below the bound exactly if `below`, and wholly
    above exactly if `above`. `n_more` more samples would settle it with 80 % power if the estimate is right (0: it is
    settled, None: no attainable number would). `detectable` is the shortfall under the bound that would be decided
    with 80 % power at this n; None where it can't be told.
    """

    name: str
    estimate: float
    interval: MeanInterval
    p_below: float
    p_above: float
    below: bool
    above: bool
    n: int
    n_more: int | None
    detectable: float | None
    p_adjusted: float = 1.0


def decide(hypotheses: Sequence[Hypothesis], *, alpha: float = 0.05, seed: int = 0) -> tuple[Decision, ...]:
    """Decide all `hypotheses` together, with family-wise error rate `alpha` over the `below` decisions.

    Raises ValueError for values that are empty, not finite, out of bounds or of other length than their units.
    """
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must be in (0, 0.5), got {alpha}")
    if not hypotheses:
        return ()
    ready = [_checked(hypothesis) for hypothesis in hypotheses]
    sums = flipped_sums(_unit_totals(ready), draws=DRAWS, seed=seed)
    down = upper_ranks(-sums)
    p_below = np.array([_p_below(h, down[0, j]) for j, h in enumerate(ready)])
    adjusted = step_down(p_below, down)
    up_first = np.mean(sums >= sums[0], axis=0)
    return tuple(
        _decision(h, float(p_below[j]), _p_above(h, float(up_first[j])), float(adjusted[j]), alpha, len(ready), seed)
        for j, h in enumerate(ready)
    )


def step_down(p: Floats, null: Floats) -> Floats:
    """Adjusted p-values (m,) of marginal `p` (m,) by step-down min-P over `null` (draws, m) p-values.

    Never above the Holm adjustment: the null distribution only tells how far hypotheses move together.
    """
    order = np.argsort(p, kind="stable")
    remaining = null[:, order]
    smallest = np.minimum.accumulate(remaining[:, ::-1], axis=1)[:, ::-1]
    ordered = p[order]
    joint = np.mean(smallest <= ordered + 1e-12, axis=0)
    holm = ordered * np.arange(len(p), 0, -1)
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.maximum(ordered, np.minimum(joint, holm))))
    back = np.empty_like(adjusted)
    back[order] = adjusted
    return back


def _checked(hypothesis: Hypothesis) -> Hypothesis:
    values = checked(hypothesis.values, hypothesis.bounds, hypothesis.groups)
    if np.shape(hypothesis.units) != values.shape:
        raise ValueError(f"{hypothesis.name}: {np.shape(hypothesis.units)} units for {values.shape} values")
    return replace(hypothesis, values=values)


def _unit_totals(hypotheses: Sequence[Hypothesis]) -> Floats:
    """(rows, m): the values less their bound, summed by what is flipped together: groups where any are given."""
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


def _p_below(h: Hypothesis, flipped: float) -> float:
    if h.paired:
        return 1.0 if not np.any(h.values) and h.bound <= 0.0 else flipped
    return p_mean_at_least(_blocks(h), h.bound, h.bounds)


def _p_above(h: Hypothesis, flipped: float) -> float:
    if h.paired:
        if not np.any(h.values):
            return 0.0 if h.bound < 0.0 else 1.0
        return flipped
    return p_mean_at_most(_blocks(h), h.bound, h.bounds)


def _blocks(h: Hypothesis) -> Blocks:
    return blocks_of(h.values, h.groups)


def _decision(
    h: Hypothesis, p_below: float, p_above: float, adjusted: float, alpha: float, m: int, seed: int
) -> Decision:
    interval = mean_interval(h.values, confidence=1.0 - alpha, bounds=h.bounds, groups=h.groups, seed=seed)
    below = adjusted <= alpha and interval.estimate < h.bound
    above = interval.low >= h.bound and not below
    interval = _consistent(interval, h.bound, below)
    deviation = _deviation(h)
    blocks = h.values.size
    quantiles = float(ndtri(1.0 - alpha / m) + ndtri(POWER))
    detectable = quantiles * deviation / math.sqrt(blocks) if deviation > 0.0 else None
    gap = abs(interval.estimate - h.bound)
    n_more: int | None = 0
    if not below and not above:
        n_more = None
        if gap > 0.0 and deviation > 0.0 and (quantiles * deviation / gap) ** 2 <= MOST_SAMPLES:
            n_more = max(1, math.ceil((quantiles * deviation / gap) ** 2) - blocks)
    return Decision(
        h.name, interval.estimate, interval, p_below, p_above, below, above, blocks, n_more, detectable, adjusted
    )


def _consistent(interval: MeanInterval, bound: float, below: bool) -> MeanInterval:
    # The decision is the family's, the interval one hypothesis's own: the limit at the bound gives way.
    if below and interval.high >= bound:
        return replace(interval, high=float(np.nextafter(bound, -np.inf)))
    if not below and interval.high < bound:
        return replace(interval, high=bound)
    return interval


def _deviation(h: Hypothesis) -> float:
    """The standard deviation of one value, such that the mean of n has standard error deviation / sqrt(n)."""
    blocks = _blocks(h)
    if blocks.n_blocks < 2:
        return 0.0
    mean = float(np.mean(h.values))
    squares = float(np.sum(blocks.counts * (blocks.totals - blocks.sizes * mean) ** 2))
    return math.sqrt(squares * blocks.n_blocks / (blocks.n_blocks - 1) / blocks.n)
