"""Anytime-valid inference for bounded means: valid at every look and for any stopping rule.

Betting: a gambler bets that the mean is below m, with wealth that can't grow in expectation if that is false. If it
ever reaches 1/alpha, m is rejected. By Ville's inequality, the probability of a false rejection at any look is at most
alpha.
Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024),
section 4.1 (bets after equation 26), Theorem 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CAP = 0.75
_GRID = 2001
_CELLS = 2_000_000


def log_wealth(values: Floats, bound: Floats, *, alpha: float, below: bool) -> Floats:
    """Log wealth (n, k) of bets that the mean of `values` (n,) in [0, 1] lies below (or above) each of `bound` (k,).

    A wealth of 1/alpha at any time rejects the bound at level alpha. The bets depend on past values only.
    """
    x = np.asarray(values, dtype=np.float64)
    times = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (times + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (times + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    stake = np.sqrt(2.0 * math.log(1.0 / alpha) / (before * times * np.log(times + 1.0)))
    m = np.atleast_1d(np.asarray(bound, dtype=np.float64))[None, :]
    room = np.maximum((1.0 - m) if below else m, 1e-12)
    bets = np.minimum(stake[:, None], _CAP / room)
    gain = (m - x[:, None]) if below else (x[:, None] - m)
    return np.asarray(np.cumsum(np.log1p(bets * gain), axis=0))


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of one bound after n values: decided `below` or `above` it at value number `at`, or neither yet."""

    decision: Literal["below", "above"] | None
    at: int | None
    n: int


def watch(
    values: Floats,
    bound: float,
    *,
    alpha_below: float = 0.05,
    alpha_above: float = 0.05,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Watched:
    """Decide whether the mean is below or above `bound`, with a look after each of `values` (n,), in order.

    The values must be independent and in random order (pass group means for related samples). The probability of ever
    wrongly deciding "below" is at most `alpha_below` (divide a family's alpha by Bonferroni); likewise for above. The
    first decision is final. Raises ValueError for values out of `bounds`.
    """
    x, m = _scaled(values, bounds), (bound - bounds[0]) / (bounds[1] - bounds[0])
    below = _first_crossing(x, m, alpha_below, below=True) if 0.0 < m <= 1.0 else None
    above = _first_crossing(x, m, alpha_above, below=False) if 0.0 <= m < 1.0 else None
    if below is not None and (above is None or below <= above):
        return Watched("below", below, len(x))
    return Watched("above" if above is not None else None, above, len(x))


def _first_crossing(x: Floats, m: float, alpha: float, *, below: bool) -> int | None:
    """The number of the value after which the mean is decided to be below (or above) m; None if it is not."""
    reached = np.flatnonzero(log_wealth(x, np.array([m]), alpha=alpha, below=below)[:, 0] >= math.log(1.0 / alpha))
    return int(reached[0]) + 1 if len(reached) else None


def confidence_sequence(
    values: Floats, *, confidence: float = 0.95, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[Floats, Floats]:
    """Limits `low` (n,) and `high` (n,) that all hold simultaneously with probability `confidence`.

    The limits only tighten, and are rounded outwards to a grid of 1/2000 of the width of the bounds. Makes the same
    assumptions as `watch`.
    """
    x = _scaled(values, bounds)
    grid = np.linspace(0.0, 1.0, _GRID)
    tail = (1.0 - confidence) / 2.0
    # Rejecting a bound rejects all bounds further out; the outermost bound not rejected is the limit.
    high = np.ones(len(x) + 1)
    low = np.zeros(len(x) + 1)
    np.minimum.at(high, _crossings(x, grid, tail, below=True), grid)
    np.maximum.at(low, _crossings(x, grid, tail, below=False), grid)
    high = np.minimum.accumulate(high[:-1])
    low = np.maximum.accumulate(low[:-1])
    lo, width = bounds[0], bounds[1] - bounds[0]
    return lo + width * low, lo + width * high


def _crossings(x: Floats, grid: Floats, tail: float, *, below: bool) -> NDArray[np.intp]:
    """For each bound of `grid`, the index of the value at which it is rejected; n if none."""
    columns = max(1, _CELLS // max(1, len(x)))
    first = np.full(len(grid), len(x), dtype=np.intp)
    for start in range(0, len(grid), columns):
        part = slice(start, start + columns)
        reached = log_wealth(x, grid[part], alpha=tail, below=below) >= math.log(1.0 / tail)
        first[part] = np.where(reached.any(axis=0), np.argmax(reached, axis=0), len(x))
    return first


def _scaled(values: Floats, bounds: tuple[float, float]) -> Floats:
    lo, hi = bounds
    x = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(x)) or (len(x) and (x.min() < lo - 1e-9 or x.max() > hi + 1e-9)):
        raise ValueError(f"values must be finite and within {bounds}")
    return np.clip((x - lo) / (hi - lo), 0.0, 1.0)
