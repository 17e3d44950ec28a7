"""The versions of the system in production, as logs name them: the figures of each, and what the newest one changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragstone.tools.monitor.figures import KINDS, Figure, Window, kind_of

_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Difference:
    """What a figure of the newest version differs by from the one before it, with the 95 % limits."""

    name: str
    before: float
    after: float
    low: float
    high: float

    @property
    def word(self) -> Literal["better", "worse", "no difference shown"]:
        if self.low <= 0.0 <= self.high:
            return "no difference shown"
        return "worse" if (self.low > 0.0) is kind_of(self.name).rising else "better"


@dataclass(frozen=True, slots=True)
class Versions:
    """The figures of each version, the oldest first, and the `differences` of the newest from the one before it.

    `together`: both are compared over the windows that have both; else over all that have one of them.
    """

    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    together: bool = False


def compare_versions(windows: Sequence[Window]) -> Versions:
    """The versions in `windows`, as far as interactions name one."""
    names = list(dict.fromkeys(version for window in windows for version in window.versions))
    found = {name: _figures(name, windows) for name in names}
    if len(names) < 2:
        return Versions(found)
    both = [one for one in windows if {*names[-2:]} <= one.versions.keys()]
    old, new = (_figures(name, both or windows) for name in names[-2:])
    changes = (
        _difference(name, old[name], new[name])
        for name in old
        if name in new and kind_of(name).form != "number" and old[name].n and new[name].n
    )
    return Versions(found, tuple(changes), bool(both))


def _figures(version: str, windows: Sequence[Window]) -> dict[str, Figure]:
    """The figures of a version over all `windows`; metrics over those with the newest judge."""
    judge = next((one.judge for one in reversed(windows) if one.judge is not None), None)
    series: dict[str, list[Figure]] = {}
    for one in windows:
        for name, figure in one.versions.get(version, {}).items():
            if name in KINDS or one.judge == judge:
                series.setdefault(name, []).append(figure)
    return {name: _pooled(figures) for name, figures in series.items()}


def _pooled(figures: Sequence[Figure]) -> Figure:
    """The mean over windows, by units, with the variance that units or windows show; `n` 0: it is not known."""
    count, total = len(figures), sum(one.n for one in figures)
    shares = [(one.n / total if total else 1.0 / count, one) for one in figures]
    mean = sum(share * one.value for share, one in shares)
    among = sum((share * (one.value - mean)) ** 2 for share, one in shares) * count / max(1, count - 1)
    of_units = sum(share**2 * one.variance / one.n for share, one in shares if one.n)
    n = total or (float(count) if count > 1 else 0.0)
    return Figure(mean, n, n * max(among, of_units))


def _difference(name: str, old: Figure, new: Figure) -> Difference:
    change, reach = new.value - old.value, _Z * math.sqrt(old.variance / old.n + new.variance / new.n)
    return Difference(name, old.value, new.value, change - reach, change + reach)
