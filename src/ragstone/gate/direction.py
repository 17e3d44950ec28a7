"""Metrics where less is better: decided as 1 − score, so that one set of rules fits
all, and reported as they are."""

from __future__ import annotations

from msgspec import Struct

from ragstone.gate.verdict import CheckKind

_ROUND = 12
"""Decimals of a level that was turned around twice: 1 − (1 − 0.15) is not 0.15 in
binary."""


class Direction(Struct, frozen=True):
    """The words and keys for metrics of one direction."""

    lower_is_better: bool
    level: CheckKind
    change: CheckKind
    change_key: str
    beyond: str

    def rising(self, name: str) -> str:
        """What rises as answers get better: the metric called `name`, or 1 − it."""
        if self.lower_is_better:
            return f"1 − {name}"
        return name

    def shown(self, value: float) -> float:
        """A mean, or its bound, as it is reported."""
        if self.lower_is_better:
            return round(1.0 - value, _ROUND)
        return value

    def shown_change(self, value: float) -> float:
        """A change, or its bound, as it is reported."""
        if self.lower_is_better:
            return 0.0 - value
        return value


HIGHER = Direction(False, CheckKind.FLOOR, CheckKind.DROP, "max_drop", "below")
LOWER = Direction(True, CheckKind.CEILING, CheckKind.RISE, "max_rise", "above")
