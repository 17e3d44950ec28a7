"""Decides several hypotheses at once.

Each hypothesis is that a mean is at least its bound. The probability that any true one is decided `below` is at most
alpha over the whole family, by step-down min-P (Westfall and Young 1993, algorithm 2.8). The null distribution comes
from joint sign flips, so correlated hypotheses lose less power than with Bonferroni or Holm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ragstone.stats.bounded_mean import Blocks, blocks_of, p_mean_at_least, p_mean_at_most
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import checked, is_paired, mean_interval, reached
from ragstone.stats.power import detectable_drop
from ragstone.stats.signflip import TAIL, Answers, flipped_sums, flips, on_grid, relabelled_sums, upper_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS = 4096
POWER = 0.8
MID_P_FROM = 8
LOSS = 0.5
"""Assumed fall of each score that falls, for the detectable drop: a drop adds variance that two equal runs do not show.
0.5 gives the stated power (`bench/gate_error_rates.py`, sights)."""
MAX_SAMPLES = 1_000_000
"""A need for more samples than this is reported as None, because no golden set is that large."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The hypothesis that the mean of `values` (n,) is at least `bound`.

    `units` (n,) are sample indices, shared by all hypotheses: values with the same index are dependent. `bounds` is the
    range of the values. `groups` (n,) labels related samples, with one numbering for all hypotheses; None means that
    samples are independent. `weight` is the hypothesis's share of alpha relative to the others. `answers`
    are those behind differences between unequal numbers of answers; None: a difference and its negative are equally
    likely if nothing changed.
    """

    name: str
    values: Floats
    units: Ints
    bound: float
    bounds: tuple[float, float] = (0.0, 1.0)
    groups: Ints | None = None
    weight: float = 1.0
    answers: Answers | None = None

    @property
    def paired(self) -> bool:
        """Whether the values are differences, for which 0 means "unchanged"."""
        return is_paired(self.bounds)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one hypothesis.

    `p_below` is the one-sided p-value before adjustment: a small one is evidence that the mean is below the bound.
    `below` is adjusted over the family; `above` is not, since a clean pass needs all hypotheses above (an
    intersection-union test). `interval` is entirely below the bound exactly if `below`, and entirely above exactly if
    `above`. `n_more` more samples would decide it with 80 % power if the estimate is right (0: already decided, None:
    no attainable number). `detectable` is the shortfall under the bound that would be decided with 80 % power at this
    n; None if it is unknown. `p_adjusted` is None if it was decided apart from the others.
    """

    name: str
    estimate: float
    interval: Estimate
    p_below: float
    below: bool
    above: bool
    n: int
    n_more: int | None
    detectable: float | None
    p_adjusted: float | None = 1.0


def decide(hypotheses: Sequence[Hypothesis], *, alpha: float = 0.05, seed: int = 0) -> tuple[Decision, ...]:
    """Decide all `hypotheses` together, with family-wise error rate `alpha` over the `below` decisions.

    Differences are tested by joint sign flips, with mid-p-values: exact on average if both sides are exchangeable
    (nothing changed), approximate otherwise. Other values are tested by Gaffke's bound.
    Raises ValueError for values that are empty, not finite, out of bounds or not as many as their units.
    """
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must be in (0, 0.5), got {alpha}")
    ready = [_checked(hypothesis) for hypothesis in hypotheses]
    p_below, adjusted = adjusted_p_values(ready, seed=seed)
    total = sum(h.weight for h in ready)
    return tuple(
        _decision(h, float(p), float(p_adjusted), alpha, alpha * h.weight / total)
        for h, p, p_adjusted in zip(ready, p_below, adjusted, strict=True)
    )


def adjusted_p_values(hypotheses: Sequence[Hypothesis], *, seed: int = 0) -> tuple[Floats, Floats]:
    """Marginal (m,) and adjusted (m,) p-values of the m hypotheses that a mean is at least its bound."""
    if not hypotheses:
        return np.zeros(0), np.zeros(0)
    sums = _null_sums(hypotheses, seed)
    null = upper_ranks(-sums)
    p = np.array([_p_below(h, float(null[0, j])) for j, h in enumerate(hypotheses)])
    ties = np.array([_tie_share(h, sums[:, j]) for j, h in enumerate(hypotheses)])
    return p - ties / 2.0, step_down(p, null, np.array([h.weight for h in hypotheses]), ties)


def step_down(p: Floats, null: Floats, weights: Floats, ties: Floats) -> Floats:
    """Adjust marginal p-values `p` (m,) by weighted step-down min-P over the p-values `null` (draws, m).

    `ties` (m,) is the share of draws as extreme as the data; it counts half (mid-p, Lancaster 1961), and so do ties of
    the joint null distribution. With 0, ties count in full. The result never exceeds the weighted Holm adjustment: the
    null distribution is only used for the dependence between hypotheses.
    """
    order = np.argsort(p / weights, kind="stable")
    weighted = (p / weights)[order]
    smallest = np.minimum.accumulate((null / weights)[:, order[::-1]], axis=1)[:, ::-1]
    lower = np.mean(smallest < weighted * (1.0 - 1e-9), axis=0)
    equal = np.mean(smallest <= weighted * (1.0 + 1e-9), axis=0) - lower
    joint = lower + np.where(ties[order] > 0.0, 0.5, 1.0) * equal
    # Beyond the tail the null p-values are unknown.
    joint[weighted * weights.max() > TAIL] = 1.0
    least = (p - ties / 2.0)[order]
    holm = least / weights[order] * np.cumsum(weights[order][::-1])[::-1]
    adjusted = np.maximum.accumulate(np.maximum(least, np.minimum(joint, holm)))
    back = np.empty_like(adjusted)
    back[order] = np.minimum(1.0, adjusted)
    return back


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


def _null_sums(hypotheses: Sequence[Hypothesis], seed: int) -> Floats:
    """(draws, m): sums of values minus their bound over equally likely data; the first are those observed."""
    ways = max((h.answers.ways for h in hypotheses if h.answers is not None), default=0)
    if not ways:
        return flipped_sums(_unit_totals(hypotheses), draws=DRAWS, seed=seed)
    likely = [
        flips(h.values - h.bound, ways) if h.answers is None else h.answers.relabelled(h.bound) for h in hypotheses
    ]
    each = [
        _unit_totals([replace(h, values=one[:, way], bound=0.0) for h, one in zip(hypotheses, likely, strict=True)])
        for way in range(ways)
    ]
    return relabelled_sums(np.stack(each, axis=1), draws=DRAWS, seed=seed)


def _p_below(h: Hypothesis, flipped: float) -> float:
    if h.paired:
        return 1.0 if not np.any(h.values) and h.bound <= 0.0 else flipped
    return p_mean_at_least(_blocks(h), h.bound, h.bounds)


def _tie_share(h: Hypothesis, sums: Floats) -> float:
    """The share of flips that give exactly the sum of the data, which mid-p counts half; 0 if mid-p is not used.

    Flips of few changed samples have few outcomes, so plain p-values reject far too rarely. Below `MID_P_FROM` samples
    (or groups) mid-p is not used, because the steps are too coarse.
    """
    if not h.paired or not np.any(h.values) or _blocks(h).n_blocks < MID_P_FROM:
        return 0.0
    return float(np.mean(sums == sums[0]))


def _blocks(h: Hypothesis) -> Blocks:
    return blocks_of(h.values, h.groups)


def _decision(h: Hypothesis, p_below: float, adjusted: float, alpha: float, level: float) -> Decision:
    interval = mean_interval(h.values, confidence=1.0 - alpha, bounds=h.bounds, groups=h.groups)
    n = len(h.values)
    below = adjusted <= alpha and interval.estimate < h.bound
    above = interval.low >= h.bound and not below
    deviation = _deviation(h)
    detectable = _detectable(h, deviation, level)
    return Decision(
        name=h.name,
        estimate=interval.estimate,
        interval=consistent(interval, h.bound, below=below),
        p_below=p_below,
        below=below,
        above=above,
        n=n,
        n_more=0 if below or above else _n_more(h, interval.estimate, deviation, level, alpha),
        detectable=detectable if detectable <= h.bound - h.bounds[0] else None,
        p_adjusted=adjusted,
    )


def _detectable(h: Hypothesis, deviation: float, level: float) -> float:
    if not h.paired:
        return detectable_drop(deviation, len(h.values), POWER, level) if deviation > 0.0 else math.inf
    # With so few blocks, no sign flip is rarer than all signs being equal; a block goes bad as a whole.
    blocks = _blocks(h).n_blocks
    if 0.5**blocks > level:
        return math.inf
    spread = deviation * math.sqrt(blocks / len(h.values))
    return detectable_drop(spread, blocks, POWER, level, allowed=max(0.0, -h.bound), loss=LOSS)


def _n_more(h: Hypothesis, estimate: float, deviation: float, level: float, alpha: float) -> int | None:
    """How many more values like these decide the hypothesis on the side of `estimate`, with probability `POWER`.

    Computes the p-values of the decision for more of the same blocks, with the estimate moved towards the bound by the
    margin that `POWER` requires.
    """
    gap = abs(estimate - h.bound)
    n = len(h.values)
    blocks = _blocks(h)
    far = reached(h.values, h.bounds)

    def settled(total: int) -> bool:
        luck = float(ndtri(POWER)) * deviation / math.sqrt(total)
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


def _deviation(h: Hypothesis) -> float:
    """The standard deviation of one value, such that the mean of n values has standard error deviation / sqrt(n)."""
    blocks = _blocks(h)
    if blocks.n_blocks < 2:
        return 0.0
    mean = float(np.mean(h.values))
    squares = float(np.sum(blocks.counts * (blocks.totals - blocks.sizes * mean) ** 2))
    return math.sqrt(squares * blocks.n_blocks / (blocks.n_blocks - 1) / blocks.n)
