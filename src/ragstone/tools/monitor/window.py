"""A window of production: the interactions of some hours or days, a random sample of
them, and their figures."""

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
"""In a window: they are in memory."""

INSIDE = "interactions in the window"
OUTSIDE = "interactions outside it"
NO_MATCH = "lines with feedback on no interaction of the window"

_LENGTH = re.compile(r"([1-9]\d{0,3})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Period(Struct, frozen=True):
    """From `start` to `end`, which is not part of it."""

    start: datetime
    end: datetime

    @property
    def name(self) -> str:
        """``2026-10-01``, or for anything but a day ``2026-10-01T06 to
        2026-10-01T12``."""
        if self.end - self.start == _UNITS["d"]:
            return f"{self.start:%Y-%m-%d}"
        return f"{self.start:%Y-%m-%dT%H} to {self.end:%Y-%m-%dT%H}"


def period_before(until: datetime, since: str) -> Period:
    """The last whole hours, days or weeks (``6h``, ``1d``, ``1w``) that were over at
    `until`, in UTC.

    Raises ConfigError.
    """
    parsed = _LENGTH.fullmatch(since)
    if parsed is None:
        raise ConfigError(
            f"'{since}' is no length of time.",
            where="--since",
            hint="Write 6h, 1d or 1w, for example.",
        )
    until_utc = until.astimezone(UTC)
    end = until_utc.replace(minute=0, second=0, microsecond=0)
    if parsed[2] != "h":
        end = end.replace(hour=0)
    length = int(parsed[1]) * _UNITS[parsed[2]]
    return Period(end - length, end)


class Window(Struct, frozen=True):
    """The interactions of a `period`, by their keys."""

    period: Period
    interactions: dict[str, Interaction]


def read_window(
    files: Iterable[Path], period: Period, rules: MonitorRules
) -> tuple[Window, Counter[str]]:
    """The window of `period` in `files`, in which each interaction counts once, and how
    often what was read.

    Raises ConfigError for a file that can't be opened, and for more than
    MAX_INTERACTIONS interactions.
    """
    interactions: dict[str, Interaction] = {}
    counts = Counter[str]()
    feedback: dict[str, float | None] = {}
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
            feedback[interaction.id] = interaction.feedback
            continue
        counts[INSIDE] += 1
        interactions[interaction.key] = interaction
        if len(interactions) > MAX_INTERACTIONS:
            raise ConfigError(
                f"there are more than {MAX_INTERACTIONS:,} interactions in {period.name}.",
                hint="Take shorter windows with --since, such as 6h, or log a random part of the interactions.",
            )
    for key, interaction in interactions.items():
        if interaction.id in feedback:
            update = {"feedback": feedback.pop(interaction.id)}
            interactions[key] = interaction.model_copy(update=update)
    counts[NO_MATCH] += len(feedback)
    return Window(period, interactions), +counts


def is_bad(interaction: Interaction, rules: MonitorRules) -> bool | None:
    """Whether a user said that the answer is bad; None without feedback."""
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


def shares_of(interaction: Interaction, rules: MonitorRules) -> dict[str, bool | None]:
    """Whether `interaction` counts in each of SHARES; None if it is none of those that
    the share is of."""
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
TITLES: Mapping[str, str] = MappingProxyType(
    read_table("fields.toml", __package__)["figures"]
)
"""What reports call the figures."""


def figure_title(name: str) -> str:
    """What reports call a figure, or else a metric."""
    return TITLES[name] if name in TITLES else metric_title(name)


def show_figure(name: str, value: float | None) -> str:
    """The value of a figure, or else of a metric, in its unit."""
    if name in SHARES:
        return percent(value)
    if name in LATENCIES:
        return seconds(value)
    digits = 0 if name in TITLES else 2
    return score(value, digits)


def figures_of(window: Window, rules: MonitorRules) -> Iterator[tuple[str, FigurePart]]:
    """The figures of `window` by name, in the order of TITLES. What is not logged has
    none."""
    interactions = window.interactions.values()
    yield "questions", FigurePart(value=len(interactions))
    for name, identity in (("users", "user_id"), ("sessions", "session_id")):
        identities = {getattr(interaction, identity) for interaction in interactions}
        people = identities - {""}
        if people:
            yield name, FigurePart(value=len(people))
    latencies = sorted(
        interaction.latency
        for interaction in interactions
        if interaction.latency is not None
    )
    if latencies:
        n = len(latencies)
        mean = float(np.mean(latencies))
        rank = math.ceil(0.95 * n)
        p95 = latencies[rank - 1]
        yield "latency_mean", FigurePart(value=mean, n=n)
        yield "latency_p95", FigurePart(value=p95, n=n)
    shares = [shares_of(interaction, rules) for interaction in interactions]
    for name in SHARES:
        hits = [share[name] for share in shares if share[name] is not None]
        if hits:
            n = len(hits)
            hit_share = hits.count(True) / n
            yield name, FigurePart(value=hit_share, n=n)
