"""The figures of a window: how much was asked, how fast, how often without an answer, and what users said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

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

    Without another rule, it may not be worse than `line`, from the first window on.
    """

    title: str
    rising: bool
    action: Action
    shift: float
    relative: bool
    form: Form
    line: float | None = None

    def show(self, value: float | None) -> str:
        if self.form == "number":
            return "–" if value is None else whole(value)
        return {"score": score, "share": percent, "seconds": seconds}[self.form](value)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "interactions": Kind("interactions", False, "off", 0.5, True, "number"),
        "users": Kind("distinct users", False, "off", 0.5, True, "number"),
        "sessions": Kind("distinct sessions", False, "off", 0.5, True, "number"),
        "latency_mean": Kind("latency, mean", True, "warn", 0.25, True, "seconds"),
        "latency_p95": Kind("latency, 95th percentile", True, "warn", 0.25, True, "seconds"),
        "slow_rate": Kind("slow answers", True, "warn", 0.05, False, "share", 0.5),
        "no_source_rate": Kind("answers without a source", True, "warn", 0.05, False, "share", 0.5),
        "zero_result_rate": Kind("searches without a result", True, "warn", 0.05, False, "share", 0.5),
        "abstention_rate": Kind("abstentions", True, "warn", 0.05, False, "share", 0.5),
        "error_rate": Kind("errors", True, "fail", 0.02, False, "share", 0.1),
        "feedback_rate": Kind("share with feedback", False, "off", 0.05, False, "share"),
        "bad_feedback_rate": Kind("bad feedback", True, "warn", 0.05, False, "share"),
    }
)


_LINES = {"faithfulness": 0.5, "top_context_used": 1.0 - MAX_IGNORED}


def kind_of(name: str) -> Kind:
    if name in KINDS:
        return KINDS[name]
    metric = find_metric(name)
    rising = metric is not None and metric.info.lower_is_better
    return Kind(name, rising, "fail", 0.05, False, "score", _LINES.get(name))


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


_COUNTS = """
SELECT count(*), count(DISTINCT user), count(DISTINCT session), count(user), count(session),
  count(latency), total(latency), total(latency * latency), total(latency > ?1),
  total(answered AND sourced IS NOT NULL), total(answered AND sourced = 0 AND NOT coalesce(abstained, 0)),
  count(found), total(found = 0), count(abstained), total(abstained), total(error), count(feedback), total(feedback)
FROM interactions WHERE window = ?2 AND version = coalesce(?3, version)
"""

_LATENCY = """
SELECT latency FROM interactions WHERE window = ?1 AND version = coalesce(?2, version) AND latency IS NOT NULL
ORDER BY latency LIMIT 1 OFFSET ?3
"""


def figures_of(state: State, window: str, *, slow_s: float, version: str | None = None) -> dict[str, Figure]:
    """The figures of the interactions of a window, or of one version in it. What is not logged has no figure."""
    (
        total, users, sessions, with_user, with_session, timed, seconds_, squares, slow, with_sources, bare,
        searched, nothing, checked, abstained, errors, judged, good,
    ) = state.one(_COUNTS, slow_s, window, version)  # fmt: skip

    def rates() -> Iterator[tuple[str, float, float]]:
        yield "slow_rate", slow, timed
        yield "no_source_rate", bare, with_sources
        yield "zero_result_rate", nothing, searched
        yield "abstention_rate", abstained, checked
        yield "error_rate", errors, total
        yield "feedback_rate", judged, total
        yield "bad_feedback_rate", judged - good, judged

    found = {"interactions": Figure(float(total))}
    if with_user:
        found["users"] = Figure(float(users))
    if with_session:
        found["sessions"] = Figure(float(sessions))
    if timed:
        mean = seconds_ / timed
        found["latency_mean"] = Figure(mean, float(timed), max(0.0, squares / timed - mean**2))
        place = min(timed - 1, math.ceil(0.95 * timed) - 1)
        (p95,) = state.one(_LATENCY, window, version, place)
        found["latency_p95"] = Figure(float(p95))
    for name, hits, n in rates():
        if n and not (name == "feedback_rate" and not judged):
            share = hits / n
            found[name] = Figure(share, float(n), share * (1.0 - share))
    return found


def weighted(values: Sequence[float], probabilities: Sequence[float]) -> Figure:
    """The mean of scores that were drawn with these probabilities; `n` is the effective number (L. Kish, 1965)."""
    weights = inverse_weights(np.array(probabilities))
    x = np.array(values)
    mean = float(np.mean(weights * x))
    variance = float(np.sum(weights * (x - mean) ** 2) / np.sum(weights)) if len(x) > 1 else 0.25
    return Figure(mean, float(weights.sum() ** 2 / np.sum(weights**2)), variance)
