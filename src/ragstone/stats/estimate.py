"""An estimate with its interval, whatever the method."""

from __future__ import annotations

from msgspec import Struct


class Estimate(Struct, frozen=True):
    """A number with a two-sided interval. A limit is infinite if there are too few
    values to bound that side."""

    estimate: float
    low: float
    high: float
    confidence: float
    """In (0, 1)."""
    method: str
    """The name of the interval, for a reader of the report."""
    n: int
    """The number of values."""
