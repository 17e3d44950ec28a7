"""A window of production: the interactions of some hours or days, and their figures,
such as the share of slow answers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.files import read_table
from ragstone.formatting import percent, score, seconds
from ragstone.gate.policy_table import MonitorRules
from ragstone.history.lines import FigurePart
from ragstone.metrics.registry import metric_title
from ragstone.tools.monitor.interactions import BadRecord, Interaction, read_interaction
from ragstone.tools.monitor.logs import read_log

MAX_INTERACTIONS = 50_000
"""So many are read for a window, at most, since all are in memory."""

INSIDE = "interactions in the window"
OUTSIDE = "interactions outside it"
NO_MATCH = "lines with feedback on no interaction of the window"

_LENGTH = re.compile(r"(?P<count>[1-9]\d{0,3})(?P<unit>[hdw])")
_DAY = timedelta(days=1)
_UNITS = {"h": timedelta(hours=1), "d": _DAY, "w": timedelta(weeks=1)}


class Period(Struct, frozen=True):
    """The time from `start` up to `end`, which is not part of it. Both are full
    hours."""

    start: datetime
    end: datetime

    @property
    def name(self) -> str:
        """``2026-10-01`` for a calendar day in UTC, else for example ``2026-10-01T06 to
        2026-10-01T12``. No two periods have the same name."""
        if self.start.hour == 0 and self.end - self.start == _DAY:
            return f"{self.start:%Y-%m-%d}"
        return f"{self.start:%Y-%m-%dT%H} to {self.end:%Y-%m-%dT%H}"


def period_before(until: datetime, since: str) -> Period:
    """The period of the length `since` (``6h``, ``1d``, ``1w``) that ends with the last
    hour, or for days and weeks with the last day, that was over at `until`, in UTC.

    Raises ConfigError for another length.
    """
    length = _LENGTH.fullmatch(since)
    if length is None:
        raise ConfigError(
            f"'{since}' is no length of time.",
            where="--since",
            hint="Write 6h, 1d or 1w, for example.",
        )
    until_utc = until.astimezone(UTC)
    end = until_utc.replace(minute=0, second=0, microsecond=0)
    if length["unit"] != "h":
        end = end.replace(hour=0)
    start = end - int(length["count"]) * _UNITS[length["unit"]]
    return Period(start, end)


class Window(Struct, frozen=True):
    """The interactions that were logged in a period."""

    period: Period
    interactions: dict[str, Interaction]
    """The interactions by their keys."""


def read_window(
    files: Iterable[Path], period: Period, rules: MonitorRules
) -> tuple[Window, Counter[str]]:
    """Read the window of `period` from `files`: each interaction once, with the
    feedback on it.

    Also returns how many lines were read or left out, each by a text for the report.
    Raises ConfigError for a file that can't be opened, and for more than
    MAX_INTERACTIONS interactions.
    """
    interactions: dict[str, Interaction] = {}
    counts = Counter[str]()
    feedback_by_id: dict[str, float | None] = {}
    logs = (read_log(path, counts) for path in files)
    for record in chain.from_iterable(logs):
        try:
            interaction = read_interaction(record, rules.columns)
        except BadRecord as problem:
            counts[str(problem)] += 1
            continue
        if not period.start <= interaction.timestamp < period.end:
            counts[OUTSIDE] += 1
            continue
        if interaction.is_feedback:
            feedback_by_id[interaction.id] = interaction.feedback
            continue
        counts[INSIDE] += 1
        interactions[interaction.key] = interaction
        if len(interactions) > MAX_INTERACTIONS:
            raise ConfigError(
                f"there are more than {MAX_INTERACTIONS:,} interactions in {period.name}.",
                hint="Take shorter windows with --since, such as 6h, or log a random part of the interactions.",
            )
    for key, interaction in interactions.items():
        if interaction.id in feedback_by_id:
            feedback = feedback_by_id.pop(interaction.id)
            interactions[key] = interaction.model_copy(update={"feedback": feedback})
    counts[NO_MATCH] += len(feedback_by_id)
    counts_above_0 = +counts
    return Window(period, interactions), counts_above_0


def is_bad(interaction: Interaction, rules: MonitorRules) -> bool | None:
    """Whether the user's feedback says that the answer is bad; None without
    feedback."""
    if interaction.feedback is None:
        return None
    if rules.good_feedback is None:
        return interaction.feedback <= 0.0
    return interaction.feedback < rules.good_feedback


SHARES = (
    "slow",
    "errors",
    "without_sources",
    "without_results",
    "abstentions",
    "bad_feedback",
)
"""The figures that are shares of the interactions."""


def shares_of(interaction: Interaction, rules: MonitorRules) -> dict[str, bool | None]:
    """Whether `interaction` is slow, an error and so on, for each of SHARES; None if
    that is not logged, and so the interaction is not part of the whole.
    """
    shares: dict[str, bool | None] = dict.fromkeys(SHARES)
    if interaction.latency is not None:
        shares["slow"] = interaction.latency > rules.slow_s
    shares["errors"] = interaction.error
    is_answer = interaction.answer and not interaction.is_abstention
    if interaction.sources is not None and is_answer:
        shares["without_sources"] = not interaction.sources
    if interaction.results is not None:
        shares["without_results"] = interaction.results == 0
    shares["abstentions"] = interaction.is_abstention
    shares["bad_feedback"] = is_bad(interaction, rules)
    return shares


LATENCIES = ("latency_mean", "latency_p95")
"""The figures in seconds."""

TITLES: Mapping[str, str] = MappingProxyType(
    read_table("fields.toml", __package__)["figures"]
)
"""What reports call the figures."""


def figure_title(name: str) -> str:
    """What reports call a figure or a metric."""
    return TITLES[name] if name in TITLES else metric_title(name)


def show_figure(name: str, value: float | None) -> str:
    """The value of a figure in its unit, or the mean of a metric."""
    if name in SHARES:
        return percent(value)
    if name in LATENCIES:
        return seconds(value)
    is_count = name in TITLES
    return score(value, digits=0 if is_count else 2)


def figures_of(window: Window, rules: MonitorRules) -> Iterator[tuple[str, FigurePart]]:
    """Yield the figures of `window` with their names, in the order of TITLES, except
    those of what is not logged."""
    interactions = window.interactions.values()
    yield "questions", FigurePart(value=len(interactions))
    for name, field in (("users", "user_id"), ("sessions", "session_id")):
        ids = {getattr(interaction, field) for interaction in interactions} - {""}
        if ids:
            yield name, FigurePart(value=len(ids))
    latencies = sorted(
        interaction.latency
        for interaction in interactions
        if interaction.latency is not None
    )
    if latencies:
        n = len(latencies)
        mean = float(np.mean(latencies))
        rank = math.ceil(0.95 * n)  # from 1
        p95 = latencies[rank - 1]
        yield "latency_mean", FigurePart(value=mean, n=n)
        yield "latency_p95", FigurePart(value=p95, n=n)
    shares = [shares_of(interaction, rules) for interaction in interactions]
    for name in SHARES:
        is_hit = [hits[name] for hits in shares if hits[name] is not None]
        if is_hit:
            n = len(is_hit)
            share = is_hit.count(True) / n
            yield name, FigurePart(value=share, n=n)
