"""The three kinds of score. A score is never NaN or None."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Scored:
    """A value in [0, 1]. Raises ValueError for anything else, including NaN."""

    value: float
    note: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score is in [0, 1], got {self.value!r}")


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The metric does not apply to this sample, which is left out of its mean and its coverage."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The score could not be computed. It lowers coverage and is left out of the mean."""

    by: Literal["system", "judge"]
    reason: str


Score = Scored | NotApplicable | Failed
