"""The three things a score can be. Never NaN, never None standing for all three."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Scored:
    """A value in [0, 1]. Raises ValueError for anything else, NaN included."""

    value: float
    note: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score is in [0, 1], got {self.value!r}")


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The metric has nothing to say about this sample; it counts neither for nor against."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The score could not be had; it counts against coverage, and never into a mean."""

    by: Literal["system", "judge"]
    reason: str


Score = Scored | NotApplicable | Failed
