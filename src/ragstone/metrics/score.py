"""The three kinds of score. A score is never NaN or None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

FailedBy = Literal["system", "judge", "function"]
FAILED_BY: Mapping[FailedBy, str] = MappingProxyType(
    {
        "system": "the system under test",
        "judge": "the judge",
        "function": "a metric's function",
    }
)
"""What can fail to give a score, in words."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A value in [0, 1]. Raises ValueError for anything else, including NaN."""

    value: float
    note: str | None = None
    """What the report says about the value."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score is in [0, 1], got {self.value!r}")


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The metric does not apply to the sample, which is left out of the mean and the
    coverage."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The score could not be computed. The sample is left out of the mean and lowers
    the coverage."""

    by: FailedBy
    """What failed."""
    reason: str


Score = Scored | NotApplicable | Failed

NOTHING_RETURNED = Scored(0.0, note="no contexts were returned")
