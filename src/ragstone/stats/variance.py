"""Sources of a score's variance: the samples, the system's answers, and the judge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variances in squared units of the values, never negative; None if the data can't
    identify them.

    A component without repeats is None and is included in the one before it.
    """

    units: float
    """Between units (samples)."""
    draws: float | None
    """Between repeated draws within a unit (answers of a system to one question)."""
    readings: float | None
    """Between repeated readings of one draw (judgements of one answer)."""
    n_units: int
    n_draws: int
    n_readings: int

    @property
    def total(self) -> float:
        """The variance of one reading of one draw of one unit."""
        return self.units + (self.draws or 0.0) + (self.readings or 0.0)

    def share(self, part: float | None) -> float | None:
        """`part` ÷ total, in [0, 1]; None for an unknown part or zero total
        variance."""
        if part is None or self.total == 0.0:
            return None
        return part / self.total


def variance_components(
    values: Floats, units: Ints, draws: Ints | None = None
) -> VarianceComponents:
    """Variance components from repeats, by nested analysis of variance; the data may be
    unbalanced.

    `values` (n,) are readings, `units` (n,) and `draws` (n,) their labels (draw labels
    need to be unique within their unit only; None: every unit was drawn once). Negative
    estimates are set to 0. Source: S. Searle, G. Casella, C. McCulloch, "Variance
    Components" (1992), sections 3.6 and 5.3 (Henderson I). Raises ValueError for fewer
    than two units, non-finite values, or different lengths.
    """
    v = np.asarray(values, dtype=np.float64)
    if (
        v.ndim != 1
        or np.shape(units) != v.shape
        or (draws is not None and np.shape(draws) != v.shape)
    ):
        raise ValueError("values, units and draws must be vectors of one length")
    if not np.all(np.isfinite(v)):
        raise ValueError("values must be finite")
    names, unit = np.unique(units, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"variance components need at least two units, got {len(names)}"
        )
    labels = np.zeros_like(unit) if draws is None else np.asarray(draws)
    _, draw = np.unique(np.column_stack([unit, labels]), axis=0, return_inverse=True)
    return _henderson(v, unit, draw.ravel())


def _henderson(
    v: Floats, unit: NDArray[np.intp], draw: NDArray[np.intp]
) -> VarianceComponents:
    n = len(v)
    draw_size = np.bincount(draw).astype(np.float64)
    unit_size = np.bincount(unit).astype(np.float64)
    draw_mean = np.bincount(draw, weights=v) / draw_size
    unit_mean = np.bincount(unit, weights=v) / unit_size
    n_draws = len(draw_size)
    n_units = len(unit_size)
    within = float(np.sum((v - draw_mean[draw]) ** 2))
    between_draws = float(np.sum((draw_mean[draw] - unit_mean[unit]) ** 2))
    between_units = float(np.sum((unit_mean[unit] - v.mean()) ** 2))
    unit_of_draw = np.zeros(n_draws, dtype=np.intp)
    unit_of_draw[draw] = unit
    # Coefficients of the expected sums of squares.
    k1 = float(np.sum(draw_size**2 / unit_size[unit_of_draw]))
    k2 = float(np.sum(draw_size**2)) / n
    k3 = float(np.sum(unit_size**2)) / n
    readings = within / (n - n_draws) if n > n_draws else None
    draws = None
    if n_draws > n_units:
        draws = max(
            0.0, (between_draws - (n_draws - n_units) * (readings or 0.0)) / (n - k1)
        )
    explained = (n_units - 1) * (readings or 0.0) + (k1 - k2) * (draws or 0.0)
    units = max(0.0, (between_units - explained) / (n - k3))
    return VarianceComponents(units, draws, readings, n_units, n_draws, n)
