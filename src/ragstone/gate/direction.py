"""Whether more or less of a metric is better.

Where less is, the gate decides on 1 − score, so that one set of rules fits all metrics,
and reports the scores as they are.
"""

from __future__ import annotations

from msgspec import Struct

from ragstone.gate.verdict import CheckKind

_DECIMALS = 12
"""A number that was subtracted from 1 twice is rounded: 1 − (1 − 0.15) is not 0.15 in
binary."""


class Direction(Struct, frozen=True):
    """The words and keys for metrics of one direction."""

    lower_is_better: bool
    level_kind: CheckKind
    """The kind of check that limits the mean."""
    change_kind: CheckKind
    """The kind of check that limits the change from the baseline."""
    change_key: str
    """The key of thresholds.toml that limits the change."""
    failing_side: str
    """On which side of its limit a mean fails: "below" or "above"."""

    def rising_name(self, name: str) -> str:
        """The name of what rises as answers get better: the metric, or 1 − the
        metric."""
        if self.lower_is_better:
            return f"1 − {name}"
        return name

    def reported(self, value: float) -> float:
        """A mean, or its bound, as reports show it."""
        if self.lower_is_better:
            return round(1.0 - value, _DECIMALS)
        return value

    def reported_change(self, value: float) -> float:
        """A change, or its bound, as reports show it."""
        if self.lower_is_better:
            return 0.0 - value  # not -value, which would make -0.0 of no change
        return value


HIGHER = Direction(False, CheckKind.FLOOR, CheckKind.DROP, "max_drop", "below")
LOWER = Direction(True, CheckKind.CEILING, CheckKind.RISE, "max_rise", "above")
