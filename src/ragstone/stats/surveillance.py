"""Surveillance of a mean over time windows: each is looked at once, and compared with an anchor and the one before.

Against the anchor, the mean of the first windows, runs a cusum chart (E. Page, Biometrika 41, 1954) for a shift of a
stated size: it sums what each window is worse by than half of that shift, in standard errors. Its limit is chosen for a
stated number of looks between false alarms, from Siegmund's approximation of the average run length (D. Siegmund,
"Sequential Analysis", 1985, section 2.6; the correction 1.166 for the overshoot), averaged over what is not known: the
error of the anchor, and that of the noise. Against the window before, a sudden change is tested at a level that is a
share of the same rate.

The noise of a window is that of its own units, and what windows differ by beyond that, such as weekdays: both are
estimated from the anchor. Windows must be independent given the anchor; `bench/monitoring.py` simulates all of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri, stdtrit

Floats = NDArray[np.float64]

JUMPS = 0.2
"""The share of false alarms that may come from the comparison with the window before."""

CAUTION = 1.6
"""Factor on the looks between false alarms, because scores are skewed and the noise is estimated; chosen with
`bench/monitoring.py`."""

MIN_ANCHOR = 5
_FREEDOMS = (4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 35.0, 50.0, 80.0, 150.0, 400.0, 1e6)
_DOUBT = 0.5
"""Standard errors that are added to the estimate of what windows differ by, which is often 0 by chance."""

_DIFFERENCE = 2.0 / 3.0
"""Degrees of freedom of a squared successive difference (J. von Neumann, Annals of Math. Statistics 12, 1941)."""
_OVERSHOOT = 1.166
_NODES = 24
_MIN_LIMIT = 0.3
_MIN_REFERENCE = 0.1
_CERTAIN = 1e6


@dataclass(frozen=True, slots=True)
class Observed:
    """One window: the mean of `n` units (effective number) with `variance` each. 0 for a figure without units."""

    value: float
    n: float
    variance: float


@dataclass(frozen=True, slots=True)
class Look:
    """One window after the anchor. `alarm`: since the anchor; it lasts until the chart is back at half its limit.

    `jump`: since the window before. `since` is the position of the first window of the shift that the chart shows, and
    `level` the mean from there on. `z` is the change since the anchor in standard errors, positive for worse.
    """

    position: int
    value: float
    z: float
    chart: float
    limit: float
    alarm: bool
    jump: bool
    since: int
    level: float


@dataclass(frozen=True, slots=True)
class Surveillance:
    """`anchor` is the mean of the first windows, with its standard error. `looks` are those after them."""

    anchor: float
    error: float
    looks: tuple[Look, ...]


def surveil(
    series: Sequence[Observed], *, shift: float, rising: bool, anchor: int, looks_per_alarm: float
) -> Surveillance | None:
    """Look at all windows after the first `anchor`, oldest first; None if there are no more than these.

    `shift` > 0 is the change to find, in the unit of the values, and `rising` says that a rise is worse than a fall.
    The expected number of false alarms is at most one in `looks_per_alarm` looks. Raises ValueError for an anchor of
    fewer than 5 windows, or a shift that is not positive.
    """
    if anchor < MIN_ANCHOR or not shift > 0.0:
        raise ValueError(f"need an anchor of at least {MIN_ANCHOR} windows and a positive shift")
    if len(series) <= anchor:
        return None
    sign = 1.0 if rising else -1.0
    first = series[:anchor]
    values = np.array([one.value for one in first])
    centre = float(values.mean())
    unit = _unit_variance(first)
    own = [_own_variance(one, unit) for one in series]
    squares, freedom = float(values.var(ddof=1)) * (anchor - 1), float(anchor - 1)
    explained = float(np.sum(own[:anchor])) * (anchor - 1) / anchor
    least = (shift / 4.0) ** 2 if squares == explained == 0.0 else 0.0  # nothing ever varied
    error = 1.0 / math.sqrt(anchor)
    looks: list[Look] = []
    chart, alarm, since, anchor_error = 0.0, False, anchor, 0.0
    for position in range(anchor, len(series)):
        now, before = series[position], series[position - 1]
        doubt = _DOUBT * math.sqrt(2.0 / freedom) * explained / freedom
        between = max(least, (squares - explained) / freedom + doubt, 0.0)
        typical = explained / freedom + between
        noise = math.sqrt(typical)
        anchor_error = anchor_error or noise * error
        known = min(_CERTAIN, freedom * (typical / between) ** 2) if between > 0.0 else _CERTAIN
        reference = max(shift / (2.0 * noise), error, _MIN_REFERENCE)
        limit = chart_limit(round(reference, 2), error, _coarse(known), CAUTION * looks_per_alarm / (1.0 - JUMPS))
        variance = own[position] + between
        z = sign * (now.value - centre) / math.sqrt(variance)
        if chart == 0.0:
            since = position
        chart = min(limit, max(0.0, chart + z - reference))
        alarm = chart >= limit or (alarm and chart >= limit / 2.0)
        change = sign * (now.value - before.value)
        sudden = float(-stdtrit(known, JUMPS / (CAUTION * looks_per_alarm)))
        spread = math.sqrt(variance + own[position - 1] + between)
        jump = change >= sudden * spread and change >= shift / 2.0
        level = float(np.mean([one.value for one in series[since : position + 1]]))
        looks.append(Look(position, now.value, z, chart, limit, alarm, jump, since, level))
        if not alarm and not jump:
            # Successive differences are noise only, even while the mean moves slowly.
            squares += _DIFFERENCE * (now.value - before.value) ** 2 / 2.0
            explained += _DIFFERENCE * (own[position] + own[position - 1]) / 2.0
            freedom += _DIFFERENCE
    return Surveillance(centre, anchor_error, tuple(looks))


def _coarse(freedom: float) -> float:
    """`freedom` rounded down to one of few values, so that limits are computed seldom."""
    return max((one for one in _FREEDOMS if one <= freedom), default=_FREEDOMS[0])


@lru_cache(maxsize=4096)
def chart_limit(reference: float, anchor_error: float, freedom: float, looks_per_alarm: float) -> float:
    """The limit of a cusum of standardised values above `reference`, for one false alarm in `looks_per_alarm` looks.

    All in standard errors of a window. `anchor_error` is the standard error of the anchor, `freedom` the degrees of
    freedom of the noise.
    """
    quantiles = (np.arange(_NODES) + 0.5) / _NODES
    drift = anchor_error * ndtri(quantiles)
    # True noise ÷ estimated noise. chdtri(v, p) is the chi-square value that is exceeded with probability p.
    scale = np.ones(1) if freedom >= _CERTAIN else np.sqrt(freedom / chdtri(freedom, 1.0 - quantiles))
    means, scales = (each.ravel() for each in np.meshgrid(drift, scale))

    def rate(limit: float) -> float:
        return float(np.mean(1.0 / run_length((reference - means) / scales, limit / scales)))

    low, high = 0.0, 1.0
    while rate(high) > 1.0 / looks_per_alarm and high < _CERTAIN:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rate(middle) > 1.0 / looks_per_alarm else (low, middle)
    return max(_MIN_LIMIT, high)


def run_length(reference: Floats, limit: Floats) -> Floats:
    """Siegmund's approximation of the average number of standard normal values until a cusum reaches `limit`."""
    b = limit + _OVERSHOOT
    steep = np.where(np.abs(reference) < 1e-4, 1e-4, reference)
    power = np.minimum(2.0 * steep * b, 600.0)
    return np.maximum(1.0, (np.exp(power) - power - 1.0) / (2.0 * steep**2))


def _unit_variance(first: Sequence[Observed]) -> float:
    """The pooled variance of a unit, not 0 if there are units: as if one more had differed by the whole range."""
    counted = [one for one in first if one.n > 0.0]
    total = sum(one.n for one in counted)
    if total == 0.0:
        return 0.0
    pooled = sum(one.n * one.variance for one in counted) / total
    return max(pooled, min(1.0, max(one.value for one in counted) or 1.0) ** 2 / (total + 2.0))


def _own_variance(one: Observed, unit: float) -> float:
    return unit / one.n if one.n > 0.0 else 0.0
