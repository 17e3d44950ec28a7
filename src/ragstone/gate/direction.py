"""Metrics where less is better: decided as 1 − score, so that one set of rules fits
all, and reported as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragstone.gate.verdict import Check, CheckKind

_ROUND = 12
"""Decimals of a level that was turned around twice: 1 − (1 − 0.15) is not 0.15 in
binary."""


@dataclass(frozen=True, slots=True)
class Direction:
    """The words and keys for metrics of one direction."""

    lower_is_better: bool
    level: CheckKind
    change: CheckKind
    level_key: str
    change_key: str
    beyond: str
    moved: str

    def shown(self, level: float) -> float:
        """A mean, or its bound, as it is reported."""
        if self.lower_is_better:
            return round(1.0 - level, _ROUND)
        return level

    def shown_change(self, change: float) -> float:
        """A change, or its bound, as it is reported."""
        if self.lower_is_better:
            return 0.0 - change
        return change


HIGHER = Direction(
    False, CheckKind.FLOOR, CheckKind.DROP, "min", "max_drop", "below", "dropped"
)
LOWER = Direction(
    True, CheckKind.CEILING, CheckKind.RISE, "max", "max_rise", "above", "rose"
)


def as_reported(check: Check) -> Check:
    """A floor or drop of 1 − score, as the ceiling or rise of the score."""
    is_level = check.kind is CheckKind.FLOOR
    kind = LOWER.level if is_level else LOWER.change
    turn = LOWER.shown if is_level else LOWER.shown_change
    interval = check.interval
    if interval is not None:
        interval = replace(interval, low=turn(interval.high), high=turn(interval.low))
    return replace(
        check,
        kind=kind,
        estimate=None if check.estimate is None else turn(check.estimate),
        interval=interval,
        threshold=None if check.threshold is None else turn(check.threshold),
        current=None if check.current is None else LOWER.shown(check.current),
        baseline=None if check.baseline is None else LOWER.shown(check.baseline),
    )
