"""Production windows for the page of the history, from the JSON report of a monitor."""

from __future__ import annotations

import math
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.errors import ConfigError, disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.history.lines import Text
from ragstone.report.wording import metric_title
from ragstone.stats.intervals import proportion_interval
from ragstone.tools.monitor.figures import KINDS, Figure, kind_of

MAX_BYTES = 32 * 1024 * 1024
MAX_WINDOWS = 10_000
MAX_FIGURES = 200
MAX_VERSIONS = 5
_Z = 1.959963984540054
_HINT = "It must be the report of `ragstone monitor --format json`."

Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ReportedWindow(_Part):
    """A window that is over."""

    window: Day
    judge: Text | None = None
    figures: dict[Text, Figure]
    versions: dict[Text, dict[Text, Figure]] = Field(default_factory=dict)


class ReportedAlert(_Part):
    """A figure of the newest window, with the window since which it is worse."""

    name: Text
    alert: bool = False
    since: Day | None = None


class MonitorReport(_Part):
    """What is read of the report."""

    schema_version: Literal[1]
    length: Literal["day", "week"]
    timezone: Text
    windows: Annotated[tuple[ReportedWindow, ...], Field(max_length=MAX_WINDOWS)]
    figures: tuple[ReportedAlert, ...] = ()
    versions: dict[Text, dict[Text, Figure]] = Field(
        default_factory=dict, description="the figures of each version of the system, the oldest first"
    )


def read_monitor_report(path: Path) -> MonitorReport:
    """The report in `path`, its windows sorted. Raises ConfigError if it can't be read or is none."""
    with disk_errors(path, hint=_HINT), parse_errors(path, "not the report of a monitor", hint=_HINT):
        found = MonitorReport.model_validate_json(read_regular(path, limit=MAX_BYTES))
    try:
        for one in found.windows:
            date.fromisoformat(one.window)
    except ValueError as error:
        raise ConfigError(f"a window is not a date: {error}.", where=str(path), hint=_HINT) from None
    if (named := len({name for one in found.windows for name in one.figures})) > MAX_FIGURES:
        raise ConfigError(
            f"it has {named:,} figures, and at most {MAX_FIGURES} can be shown.", where=str(path), hint=_HINT
        )
    by_name = {one.window: one for one in found.windows}
    return found.model_copy(update={"windows": tuple(by_name[name] for name in sorted(by_name))})


def figures_of(report: MonitorReport) -> list[dict[str, Any]]:
    """Each figure over all windows, in columns, the metrics first: value, 95 % limits and number of units."""
    names = list(dict.fromkeys(name for one in report.windows for name in one.figures))
    ordered = [name for name in names if name not in KINDS] + [name for name in KINDS if name in names]
    found = []
    versions = dict(list(report.versions.items())[-MAX_VERSIONS:])
    for name in ordered:
        kind = kind_of(name)
        values = [one.figures.get(name) for one in report.windows]
        limits = [(None, None) if value is None else _limits(value, kind.form) for value in values]
        over = {version: _value(figures[name]) for version, figures in versions.items() if name in figures}
        found.append(
            {
                "title": metric_title(name) if name not in KINDS else f"{kind.title[0].upper()}{kind.title[1:]}",
                "form": kind.form,
                "rising": kind.rising,
                "value": [_value(value) for value in values],
                "low": [low for low, _ in limits],
                "high": [high for _, high in limits],
                "n": [None if value is None or value.n == 0 else round(value.n) for value in values],
                "marks": _marks(report, name),
                "versions": [
                    [version, [_value(one.versions.get(version, {}).get(name)) for one in report.windows]]
                    for version in over
                ],
                "over": list(over.items()),
            }
        )
    return found


def _value(found: Figure | None) -> float | None:
    return None if found is None else round(found.value, 6)


def _limits(found: Figure, form: str) -> tuple[float | None, float | None]:
    """The 95 % interval: exact for a share of all units, else ± 1.96 standard errors; none for what is not a mean."""
    if found.n < 1:
        return None, None
    if form == "share" and 0 <= found.value <= 1:
        hits = found.value * found.n
        if abs(hits - round(hits)) < 1e-6 and found.n == round(found.n):
            exact = proportion_interval(round(hits), round(found.n))
            return round(exact.low, 6), round(exact.high, 6)
    reach = _Z * math.sqrt(found.variance / found.n)
    high = min(1.0, found.value + reach) if form in ("score", "share") else found.value + reach
    return round(max(0.0, found.value - reach), 6), round(high, 6)


def _marks(report: MonitorReport, name: str) -> list[list[Any]]:
    """Where another judge began to score, and since when an alert lasts: place, kind and text."""
    found: list[list[Any]] = []
    if name not in KINDS:
        for place, (before, after) in enumerate(pairwise(report.windows), start=1):
            if before.judge is not None and after.judge is not None and before.judge != after.judge:
                # What comes after the last space identifies the versions of the metrics.
                found.append([place, "judge", f"judge: {after.judge.rpartition(' ')[0] or after.judge}"])
    places = {one.window: place for place, one in enumerate(report.windows)}
    for one in report.figures:
        if one.name == name and one.alert:
            since = one.since if one.since in places else report.windows[-1].window if report.windows else None
            if since is not None:
                found.append([places[since], "alert", f"alert: worse since {since}"])
    return found
