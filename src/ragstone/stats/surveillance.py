"""Surveillance of a mean over time windows: each is looked at once, and compared with the anchor, the first of them,
or with a line that is given.

A cusum chart (E. Page, Biometrika 41, 1954) looks for a shift of a stated size: it sums what each window is worse by
than half of that shift, in standard errors. Its limit is chosen for a stated number of looks between false alarms, from
Siegmund's approximation of the average run length (D. Siegmund, "Sequential Analysis", 1985, section 2.6; the
correction 1.166 for the overshoot), averaged over what is not known: the error of the anchor, and that of the noise.
A single window that is bad enough is an alarm at once (J. Lucas, Journal of Quality Technology 14, 1982).

Windows of one season, such as Mondays, differ alike from the others: that is subtracted, shrunk by what chance would
explain of it (B. Efron and C. Morris, JASA 70, 1975). The noise of a window is that of its own units, and what windows
differ by beyond that. What lasts for some windows raises the variance of sums, by its autocorrelation. All of this is
estimated from the anchor, and from the windows after it that raise no alarm; `bench/monitoring.py` simulates it.

Compared with a line, there is no anchor: until windows have shown what they differ by, half of the shift is presumed.
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

SEASONS = 7
"""A window is in one of so many seasons: the days of the week."""

SINGLE = 0.1
"""The share of false alarms that may come from a single window."""

MIN_ANCHOR = 5
_FREEDOMS = (4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 35.0, 50.0, 80.0, 150.0, 400.0, 1e6)
_DOUBT = 0.5
"""Standard errors that are added to the estimate of what windows differ by, and to that of their correlation: both are
often 0 by chance."""

_LASTING = 0.6
"""The least autocorrelation of what lasts. Shorter memory can't be told from a longer one with more noise."""
_MAX_CORRELATION = 0.9

_DIFFERENCE = 2.0 / 3.0
"""Degrees of freedom of a squared difference in a series (J. von Neumann, Annals of Math. Statistics 12, 1941)."""
_OVERSHOOT = 1.166
_NODES = 24
_MIN_LIMIT = 0.3
_MIN_REFERENCE = 0.1
_CERTAIN = 1e6

_PRESUMED = 28
"""How many windows what is presumed counts as: as many as an anchor has."""

_LINE_REFERENCES = (1.0, 0.25)
"""Of two charts: one is fast, the other finds all that is beyond a line by more than this in standard errors."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One window: the mean of `n` units (effective number) with `variance` each. 0 for a figure without units.

    `season`, in [0, 7), is the same for windows that may be alike, such as Mondays.
    """

    value: float
    n: float
    variance: float
    season: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """One window after the anchor. `alarm` lasts until the chart is back at 0.

    `since` is the position of the first window of the shift that the chart shows, and `level` the mean from there on.
    """

    position: int
    chart: float
    limit: float
    alarm: bool
    since: int
    level: float


def surveil(
    series: Sequence[Observed], *, shift: float, rising: bool, anchor: int, looks_per_alarm: float
) -> tuple[Look, ...]:
    """Look at all windows after the first `anchor`, oldest first.

    `shift` > 0 is the change to find, in the unit of the values, and `rising` says that a rise is worse than a fall.
    The expected number of false alarms is about one in `looks_per_alarm` looks. Raises ValueError for an anchor of
    fewer than 5 windows, or a shift that is not positive.
    """
    if anchor < MIN_ANCHOR or not shift > 0.0:
        raise ValueError(f"need an anchor of at least {MIN_ANCHOR} windows and a positive shift")
    if len(series) <= anchor:
        return ()
    return _charted(series, _Noise(series, anchor, shift), anchor, rising, looks_per_alarm)


def surveil_line(
    series: Sequence[Observed], *, line: float, shift: float, rising: bool, share: bool, looks_per_alarm: float
) -> tuple[Look, ...]:
    """Look at all windows, from the first one on, oldest first: is the mean beyond `line`?

    Windows are presumed to differ by half of `shift` at first; `share` says that all values are in [0, 1]. If the mean
    is at the line, the expected number of false alarms is about one in `looks_per_alarm` looks. Where nothing can vary,
    as at the line 0 of a share, all that is beyond is an alarm.
    """
    charts = [
        _charted(series, _LineNoise(series, line, shift, one, share=share), 0, rising, 2.0 * looks_per_alarm)
        for one in _LINE_REFERENCES
    ]
    return tuple(max(looks, key=lambda look: look.alarm) for looks in zip(*charts, strict=True))


def _charted(
    series: Sequence[Observed], noise: _Noise, first: int, rising: bool, looks_per_alarm: float
) -> tuple[Look, ...]:
    """The looks at the windows from `first` on."""
    sign = 1.0 if rising else -1.0
    looks: list[Look] = []
    chart = 0.0
    alarm = False
    since = first
    for position in range(first, len(series)):
        reference = noise.reference
        freedom = _coarse(noise.freedom / noise.lasting)
        limit = chart_limit(round(reference, 2), noise.centre_error, freedom, looks_per_alarm / (1.0 - SINGLE))
        worse = sign * (noise.without_season(position) - noise.centre)
        error = noise.error_of(position)
        z = worse / error if error > 0.0 else math.copysign(math.inf, worse or -1.0)
        if chart == 0.0:
            since = position
        # An alarm ends at less than half of the shift, or it would end and begin again with each small change.
        chart = min(limit, max(0.0, chart + z - (reference / 2.0 if alarm else reference)))
        sudden = -float(stdtrit(noise.freedom, SINGLE / looks_per_alarm)) / math.sqrt(noise.lasting)
        if z >= max(sudden, reference):
            chart = limit
        elif z <= -sudden:
            chart = 0.0
        alarm = chart >= limit or (alarm and chart > 0.0)
        level = float(np.mean([one.value for one in series[since : position + 1]]))
        looks.append(Look(position, chart, limit, alarm, since, level))
        if not alarm:
            noise.add(position)
    return tuple(looks)


class _Noise:
    """What windows differ by while nothing changes, from those of the anchor and those that were added."""

    def __init__(self, series: Sequence[Observed], anchor: int, shift: float) -> None:
        self._begin(series, _unit_variance(series[:anchor]))
        self._anchor = slice(anchor)
        self._lag = min(SEASONS, anchor)
        self._shift = shift
        self.centre_error = 1.0 / math.sqrt(anchor)
        self._seen = len(np.unique(self._season[:anchor]))
        for position in range(anchor):
            self._add_season(position)
        shrunk = self._learn_seasons()
        values = self._values[:anchor] - self._effects[self._season[:anchor]]
        self._freedom = anchor - 1.0 - (self._seen - 1.0) * shrunk
        self._squares = float(values.var()) * anchor
        self._explained = float(self._own[:anchor].mean()) * self._freedom
        self._near = float(np.sum(np.diff(values) ** 2)) / 2.0
        self._pairs = anchor - 1
        if self._squares == self._explained == 0.0:  # nothing ever varied
            self._least = (shift / 4.0) ** 2
        self._estimate()

    def _begin(self, series: Sequence[Observed], unit: float) -> None:
        self._values = np.array([one.value for one in series])
        self._season = np.array([one.season for one in series])
        self._own = np.array([unit / one.n if one.n > 0.0 else 0.0 for one in series])
        self._counts = np.zeros(SEASONS)
        self._sums = np.zeros(SEASONS)
        self._square = 0.0
        self._effects = np.zeros(SEASONS)
        self._least = 0.0
        self._reference = 0.0

    @property
    def reference(self) -> float:
        return self._reference or max(self._shift / (2.0 * self.error), self.centre_error, _MIN_REFERENCE)

    @property
    def centre(self) -> float:
        """The mean of the anchor, without seasons."""
        return float(np.mean(self._values[self._anchor] - self._effects[self._season[self._anchor]]))

    def without_season(self, position: int) -> float:
        return float(self._values[position] - self._effects[self._season[position]])

    def error_of(self, position: int) -> float:
        """The standard error of a window, as it counts in a sum over many."""
        return math.sqrt((self._own[position] + self._between) * self.lasting)

    def add(self, position: int) -> None:
        """Learn from a window. Differences are noise only, even while the mean moves slowly."""
        if not (lag := min(self._lag, position)):
            return
        now = self.without_season(position)
        far = self.without_season(position - lag)
        self._squares += _DIFFERENCE * (now - far) ** 2 / 2.0
        self._explained += _DIFFERENCE * (self._own[position] + self._own[position - lag]) / 2.0
        self._freedom += _DIFFERENCE
        self._near += (now - self.without_season(position - 1)) ** 2 / 2.0
        self._pairs += 1
        self._add_season(position)
        self._learn_seasons()
        self._estimate()

    def _estimate(self) -> None:
        explained = self._explained / self._freedom
        squares = self._squares / self._freedom
        doubt = _DOUBT * math.sqrt(2.0 / self._freedom) * explained
        self._between = max(self._least, squares - explained + doubt, 0.0)
        typical = explained + self._between
        correlation = 0.0 if squares == 0.0 else 1.0 - self._near / self._pairs / squares
        correlation = min(max(correlation + _DOUBT / math.sqrt(self._pairs), 0.0), _MAX_CORRELATION)
        self.lasting = 1.0 + 2.0 * correlation / (1.0 - max(correlation, _LASTING))
        self.error = math.sqrt(typical * self.lasting)
        known = _CERTAIN if self._between == 0.0 else self._freedom * (typical / self._between) ** 2
        self.freedom = min(_CERTAIN, known)

    def _add_season(self, position: int) -> None:
        """Compare a window with the mean of as many as there are seasons, up to this one."""
        if position >= self._seen - 1:
            change = self._values[position] - np.mean(self._values[position + 1 - self._seen : position + 1])
            self._counts[self._season[position]] += 1
            self._sums[self._season[position]] += change
            self._square += float(change**2)

    def _learn_seasons(self) -> float:
        """The share of the differences between seasons that chance does not explain, which is subtracted."""
        there = self._counts > 0.0
        if there.sum() < 2 or self._counts[there].min() < 2:
            return 0.0
        effects = self._sums[there] / self._counts[there]
        between = float(np.sum(self._counts[there] * effects**2))
        within = max(0.0, self._square - between) / (self._counts.sum() - there.sum())
        share = max(0.0, 1.0 - within * (there.sum() - 1) / between) if between > 0.0 else 0.0
        self._effects[there] = share * (effects - effects.mean())
        return share


class _LineNoise(_Noise):
    """What windows differ by, compared with a line, for which no mean has to be known: at first, what is presumed.

    The variance of a unit is the largest that one at the line can have (R. Bhatia and C. Davis, American Mathematical
    Monthly 107, 2000) if values are shares; else that of a unit that differs by as much as the line.
    """

    centre_error = 0.0

    def __init__(self, series: Sequence[Observed], line: float, shift: float, reference: float, *, share: bool) -> None:
        self._begin(series, line * (1.0 - line) if share else line**2)
        self._reference, self._line, self._lag, self._seen = reference, line, SEASONS, len(series) + 1  # no seasons
        presumed = min(shift / 2.0, line, 1.0 - line) if share else shift / 2.0
        self._freedom = float(_PRESUMED)
        self._pairs = _PRESUMED
        self._explained = self._freedom * float(self._own[:1].sum())
        self._squares = self._near = self._explained + self._freedom * presumed**2
        self._estimate()

    @property
    def centre(self) -> float:
        return self._line


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

    low = 0.0
    high = 1.0
    while rate(high) > 1.0 / looks_per_alarm and high < _CERTAIN:
        low = high
        high = 2.0 * high
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
