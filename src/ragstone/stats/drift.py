"""Slow drift: detects a loss in a mean since an anchor, tested after every observation.

The newest observation is compared with the average of the first ones, on the same units. The noise of this difference
is estimated from the series itself: from the changes of units between distant observations (the variogram; N. Cressie,
"Statistics for Spatial Data", 1993, section 2.4). This also shows how much averaging reduces the noise if neighbouring
observations share some of their values.

An ongoing loss would inflate that noise and hide itself. If nothing changed, a rise is as likely as a fall of the same
size. So the more pairs of observations there are, the more the noise estimate relies on rises, which a loss leaves
alone.

Each look has an error probability of `LEVEL`. By linearity of expectation, the expected number of false alarms in
1 / LEVEL looks is at most one, however dependent the looks are. Most of the level goes to the mean over all columns;
the columns share the rest (Bonferroni). An alarm also needs an estimate of at least s/2 for a shift of size s, like the
reference value of a cusum chart (E. Page, "Continuous inspection schemes", Biometrika 41, 1954). So it comes between
half of the shift and the whole of it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEVEL = 0.001
CAUTION = 1.12
"""Factor on Student's critical value, because the noise is itself an estimate and scores are tied and skewed.
This and the constants below were chosen with `bench/drift.py`."""

FOR_THE_MEAN = 0.75
"""The mean's share of the level. The mean is less noisy than a column, and most losses show in it first."""

FIRST = 8
"""Number of observations averaged at the anchor, but at most a third of all."""

_LAG = 5
_PAIRS = 4.0
_UNSEEN = 0.125
"""Squared change of one extra unit, used as the noise of units that never changed."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one column (None: of the mean over all columns) since the anchor.

    `change` is newest minus first, in the column's unit, negative for a loss. `excess` is `change` plus the allowed
    loss. `newest` is the newest mean over the units in both. `p_value` is one-sided and adjusted, in (0, 1]. `found` is
    True for an alarm. `n` counts units, `first` the observations at the anchor.
    """

    column: int | None
    change: float
    excess: float
    newest: float
    p_value: float
    found: bool
    n: int
    first: int


def find_losses(
    series: Floats,
    *,
    shift: Floats,
    allowed: Floats | None = None,
    sound: Bools | None = None,
    groups: Ints | None = None,
    level: float = LEVEL,
) -> tuple[Loss, ...]:
    """One Loss for each of the m columns with units in common, and one for their mean if m > 1.

    `series` (t, n, m) holds observations of n units, from the anchor to the newest; NaN is a missing value. `shift`
    (m,) is the loss to detect before it is complete, `allowed` (m,) a loss that doesn't count. `sound` (t,) marks the
    observations from which noise is estimated; the newest need not be one. `groups` (n,) labels related units.
    Raises ValueError for shapes that don't match, or for fewer than two observations.
    """
    t, n, m = series.shape
    if t < 2 or shift.shape != (m,) or (groups is not None and groups.shape != (n,)):
        raise ValueError(f"shapes don't fit, or there is nothing to compare: {series.shape}, {shift.shape}")
    usable = np.ones(t, dtype=bool) if sound is None else sound.copy()
    usable[-1] = True
    normal = series[usable]
    if len(normal) < 2:
        raise ValueError("there is no sound observation before the newest")
    first = max(1, min(FIRST, len(normal) // 3))
    change = series[-1] - _mean(normal[:first])
    counts = np.isfinite(change).sum(axis=0)
    held = [j for j in range(m) if counts[j]]
    if not held:
        return ()
    # Every column is scaled so that its sum over units is its mean; the mean over columns is an extra column.
    scaled = np.where(np.isfinite(change[None, :, held]), normal[:, :, held], np.nan) / counts[held]
    errors = np.sqrt(_variance(scaled, first, groups))
    spare = np.zeros(len(held)) if allowed is None else allowed[held]
    found = np.nansum(change[:, held], axis=0) / counts[held]
    newest = np.nansum(np.where(np.isfinite(change), series[-1], np.nan)[:, held], axis=0) / counts[held]
    least = shift[held] / 2.0
    columns: list[int | None] = [*held]
    shares = np.full(len(held), 1.0 / len(held))
    if len(held) > 1:
        columns, shares = [*held, None], np.append((1.0 - FOR_THE_MEAN) * shares, FOR_THE_MEAN)
        found, spare, least, newest = (np.append(each, each.mean()) for each in (found, spare, least, newest))
    freedom = max(1, (n if groups is None else len(np.unique(groups))) - 1)
    critical = -CAUTION * stdtrit(freedom, level * shares)
    losses = []
    for j, column in enumerate(columns):
        excess = float(found[j] + spare[j])
        statistic = -excess / errors[j] if errors[j] > 0.0 else -math.copysign(math.inf, excess) if excess else 0.0
        losses.append(
            Loss(
                column=column,
                change=float(found[j]),
                excess=excess,
                newest=float(newest[j]),
                p_value=min(1.0, float(stdtr(freedom, -statistic / CAUTION) / shares[j])),
                found=bool(statistic >= critical[j] and excess <= -least[j] and excess < 0.0),
                n=int(counts[column] if column is not None else max(counts[held])),
                first=first,
            )
        )
    return tuple(losses)


def _variance(scaled: Floats, first: int, groups: Ints | None) -> Floats:
    """The variance of "newest minus the average of the first", for each column and for their mean."""
    lag = max(min(_LAG, len(scaled) - 1), len(scaled) // 4)
    far = _half_squares(scaled, lag, groups, mixed=True)
    near = sum(
        ((first - h) * _half_squares(scaled, min(h, lag), groups, mixed=False) for h in range(1, first)),
        start=np.zeros_like(far),
    )
    # An average of `first` values keeps at least 1/first of the variance of one value.
    return np.asarray(far + np.maximum(far - 2.0 * near / first**2, far / first))


def _half_squares(scaled: Floats, lag: int, groups: Ints | None, *, mixed: bool) -> Floats:
    """Half the mean squared change over `lag` observations, summed over units (or groups of units)."""
    changes = scaled[lag:] - scaled[:-lag]
    pairs = len(changes)
    seen = np.isfinite(changes)
    # Missing units of a pair are assumed to be like the others.
    total = np.maximum(seen.any(axis=0).sum(axis=0), 1)
    blocks = total.astype(np.float64)
    fill = np.sqrt(total / np.maximum(seen.sum(axis=1), 1))
    values = np.where(seen, changes, 0.0) * fill[:, None, :]
    if values.shape[2] > 1:
        values = np.concatenate([values, values.mean(axis=2, keepdims=True)], axis=2)
        blocks = np.append(blocks, blocks.max())
    if groups is not None:
        _, labels = np.unique(groups, return_inverse=True)
        grouped = np.zeros((pairs, int(labels.max()) + 1, values.shape[2]))
        np.add.at(np.moveaxis(grouped, 1, 0), labels, np.moveaxis(values, 1, 0))
        values, blocks = grouped, np.full(values.shape[2], float(grouped.shape[1]))
    falls = np.sum(np.minimum(values, 0.0) ** 2, axis=(0, 1)) / pairs
    rises = np.sum(np.maximum(values, 0.0) ** 2, axis=(0, 1)) / pairs
    if not mixed:
        return np.asarray((falls + rises) / 2.0)
    share = min(1.0, _PAIRS / pairs)
    unseen = _UNSEEN / blocks / (blocks + 1.0)
    return np.asarray((share * falls + (2.0 - share) * rises + unseen) / 2.0)


def _mean(values: Floats) -> Floats:
    """Means (n, m) over the observations, without missing values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a unit without any observation has a mean of NaN
        return np.asarray(np.nanmean(values, axis=0))
