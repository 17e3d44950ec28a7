"""The figures of a window: how much was asked, how fast, how often without an answer, and what users said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ragstone.files import read_table
from ragstone.formatting import percent, score, seconds, whole
from ragstone.gate.alignment import MAX_IGNORED
from ragstone.metrics.registry import find_metric
from ragstone.stats.ppi import inverse_weights
from ragstone.tools.monitor.alerts_file import Action
from ragstone.tools.monitor.state import State

Number = Annotated[float, Field(allow_inf_nan=False)]
Form = Literal["score", "share", "seconds", "number"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a figure is. `rising`: more is worse. `shift` is the default change to find; `relative`: to the anchor.

    Without another rule, it may not be worse than `line`, from the first window on. A share counts what meets the SQL
    condition `hits` among what meets `of`.
    """

    title: str
    form: Form
    rising: bool
    action: Action
    shift: float
    relative: bool = False
    line: float | None = None
    hits: str = ""
    of: str = ""

    def show(self, value: float | None) -> str:
        if self.form == "number":
            return "–" if value is None else whole(value)
        return {"score": score, "share": percent, "seconds": seconds}[self.form](value)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {name: Kind(**found) for name, found in read_table("figures.toml", __package__).items()}
)
_LINES = {"faithfulness": 0.5, "top_context_used": 1.0 - MAX_IGNORED}


def kind_of(name: str) -> Kind:
    if name in KINDS:
        return KINDS[name]
    metric = find_metric(name)
    rising = metric is not None and metric.info.lower_is_better
    return Kind(name, "score", rising, "fail", 0.05, line=_LINES.get(name))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a window: its value, of how many units (0: it is not a mean), and their variance."""

    value: Number
    n: Annotated[Number, Field(ge=0, le=2**53)] = 0.0
    variance: Annotated[Number, Field(ge=0)] = 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """A decided window. `judge` names what scored its sample, and with which versions of the metrics.

    `versions` has the figures of each version of the system, if that is logged.
    """

    name: str
    figures: Mapping[str, Figure]
    judge: str | None = None
    scored: int = 0
    versions: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)


_ROWS = "FROM interactions WHERE window = :window AND version = coalesce(:version, version)"
_SHARES = [name for name, kind in KINDS.items() if kind.hits]
_COUNTS = f"""
SELECT count(*), count(DISTINCT user), count(DISTINCT session), count(latency), avg(latency), avg(latency * latency),
  {", ".join(f"total({KINDS[name].hits}), total({KINDS[name].of})" for name in _SHARES)} {_ROWS}
"""
_LATENCY = f"SELECT latency {_ROWS} AND latency IS NOT NULL ORDER BY latency LIMIT 1 OFFSET :place"


def figures_of(state: State, window: str, *, slow_s: float, version: str | None = None) -> dict[str, Figure]:
    """The figures of the interactions of a window, or of one version in it. What is not logged has no figure."""
    given = {"window": window, "version": version, "slow_s": slow_s}
    total, users, sessions, timed, mean, square, *shares = state.one(_COUNTS, given)
    found = {"interactions": Figure(float(total))}
    found |= {name: Figure(float(n)) for name, n in (("users", users), ("sessions", sessions)) if n}
    if timed:
        found["latency_mean"] = Figure(mean, float(timed), max(0.0, square - mean**2))
        (p95,) = state.one(_LATENCY, given | {"place": math.ceil(0.95 * timed) - 1})
        found["latency_p95"] = Figure(float(p95))
    for name, hits, n in zip(_SHARES, shares[::2], shares[1::2], strict=True):
        if n and (hits or name != "feedback_rate"):
            found[name] = Figure(hits / n, n, hits / n * (1.0 - hits / n))
    return found


def weighted(values: Sequence[float], probabilities: Sequence[float]) -> Figure:
    """The mean of scores that were drawn with these probabilities; `n` is the effective number (L. Kish, 1965)."""
    weights = inverse_weights(np.array(probabilities))
    x = np.array(values)
    mean = float(np.mean(weights * x))
    variance = float(np.sum(weights * (x - mean) ** 2) / np.sum(weights)) if len(x) > 1 else 0.25
    return Figure(mean, float(weights.sum() ** 2 / np.sum(weights**2)), variance)
