"""Production windows for the page of the history, from the JSON report of a monitor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.errors import ConfigError, disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.history.lines import Text
from ragstone.metrics.registry import metric_title
from ragstone.stats.intervals import proportion_interval
from ragstone.tools.history_page.charts import Chart, Point, Span, draw_chart
from ragstone.tools.monitor.figures import KINDS, Figure, kind_of

MAX_BYTES = 32 * 1024 * 1024
MAX_WINDOWS = 10_000
MAX_FIGURES = 200
MAX_VERSIONS = 5
_SHOWN_WINDOWS = 100
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


@dataclass(frozen=True, slots=True)
class VersionFigures:
    """One figure of each version of the system in production."""

    title: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Production:
    """What a monitor saw: a chart for each figure, the alerts that last, and the figures by version of the system."""

    windows: str
    alerts: tuple[str, ...]
    charts: tuple[Chart, ...]
    versions: tuple[str, ...]
    figures: tuple[VersionFigures, ...]


def read_monitor_report(path: Path) -> MonitorReport:
    """The report in `path`, its windows sorted. Raises ConfigError if it can't be read or is none."""
    with disk_errors(path, hint=_HINT), parse_errors(path, "not the report of a monitor", hint=_HINT):
        report = MonitorReport.model_validate_json(read_regular(path, limit=MAX_BYTES))
    try:
        for window in report.windows:
            date.fromisoformat(window.window)
    except ValueError as error:
        raise ConfigError(f"a window is not a date: {error}.", where=str(path), hint=_HINT) from None
    names = {name for window in report.windows for name in window.figures}
    if len(names) > MAX_FIGURES:
        raise ConfigError(
            f"it has {len(names):,} figures, and at most {MAX_FIGURES} can be shown.", where=str(path), hint=_HINT
        )
    by_day = {window.window: window for window in report.windows}
    return report.model_copy(update={"windows": tuple(by_day[day] for day in sorted(by_day))})


def production_of(report: MonitorReport) -> Production | None:
    """The newest windows of `report`, the metrics first; None without a window."""
    windows = report.windows[-_SHOWN_WINDOWS:]
    if not windows:
        return None
    names = list(dict.fromkeys(name for window in windows for name in window.figures))
    names = [name for name in names if name not in KINDS] + [name for name in KINDS if name in names]
    charts = [_chart(report, windows, name) for name in names]
    versions = dict(list(report.versions.items())[-MAX_VERSIONS:])
    measured = dict.fromkeys(name for figures in versions.values() for name in figures)
    return Production(
        windows=f"Each {report.length} from {windows[0].window} to {windows[-1].window} ({report.timezone}).",
        alerts=tuple(f"{_title(name)}: worse since {since}." for name, since in _alerts(report).items()),
        charts=tuple(chart for chart in charts if chart is not None),
        versions=tuple(versions),
        figures=tuple(
            VersionFigures(_title(name), tuple(_shown(name, figures.get(name)) for figures in versions.values()))
            for name in measured
        ),
    )


def _chart(report: MonitorReport, windows: Sequence[ReportedWindow], name: str) -> Chart | None:
    kind = kind_of(name)
    since = _alerts(report).get(name)
    points = []
    judge = None
    for window in windows:
        figure = window.figures.get(name)
        is_alert = since is not None and window.window >= since
        is_rejudged = name not in KINDS and None not in (judge, window.judge) and judge != window.judge
        judge = window.judge or judge
        low, high = (None, None) if figure is None else _limits(figure, kind.form)
        points.append(
            Point(
                value=None if figure is None else figure.value,
                low=low,
                high=high,
                word="fail" if is_alert else "none",
                label=f"{window.window}: {_shown(name, figure)}",
                starts=is_rejudged,
            )
        )
    alerts = [index for index, window in enumerate(windows) if since is not None and window.window >= since]
    return draw_chart(
        _title(name),
        points,
        show=kind.show,
        names=(windows[0].window, windows[-1].window),
        spans=[Span(alerts[0], alerts[-1], f"alert: worse since {since}")] if alerts else [],
    )


def _title(name: str) -> str:
    return metric_title(name) if name not in KINDS else KINDS[name].title.capitalize()


def _shown(name: str, figure: Figure | None) -> str:
    return kind_of(name).show(None if figure is None else figure.value)


def _limits(figure: Figure, form: str) -> tuple[float | None, float | None]:
    """The 95 % interval: exact for a share of all units, else ± 1.96 standard errors; none for what is not a mean."""
    if figure.n < 1:
        return None, None
    if form == "share" and 0 <= figure.value <= 1:
        hits = figure.value * figure.n
        if abs(hits - round(hits)) < 1e-6 and figure.n == round(figure.n):
            exact = proportion_interval(round(hits), round(figure.n))
            return exact.low, exact.high
    reach = _Z * math.sqrt(figure.variance / figure.n)
    high = figure.value + reach
    return max(0.0, figure.value - reach), min(1.0, high) if form in ("score", "share") else high


def _alerts(report: MonitorReport) -> dict[str, str]:
    """Since which window each figure with an alert is worse, by the name of the figure."""
    days = [window.window for window in report.windows]
    return {
        figure.name: figure.since if figure.since in days else days[-1]
        for figure in report.figures
        if figure.alert and days
    }
