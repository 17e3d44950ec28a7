"""The report on a window, as text and as Markdown, without any text of an
interaction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from ragstone.gate.findings import Finding, Level
from ragstone.report.escape import markdown_inline
from ragstone.report.templates import render_text_template
from ragstone.tools.monitor.findings import MAX_WINDOWS
from ragstone.tools.monitor.monitor import MonitoredWindow
from ragstone.tools.monitor.window import figure_title, show_figure

_LEVEL_NAMES = {
    Level.FAILURE: "ALERT",
    Level.ERROR: "ERROR",
    Level.WARNING: "warning",
    Level.NOTE: "note",
}
_ICONS = {"pass": "✅", "fail": "❌", "error": "🚫"}


class Row(Struct, frozen=True):
    """A row of the table of figures and metrics."""

    name: str
    value: float
    mean_before: float | None
    """The mean over the windows before; None if there is none."""


def headline(monitored: MonitoredWindow) -> str:
    """The first line of the report: the window, and the verdict on it."""
    return (
        f"{_ICONS[monitored.line.verdict]} {monitored.name}: {monitored.verdict.reason}"
    )


def monitor_text(monitored: MonitoredWindow) -> str:
    """The report for a terminal or a log."""
    return _render("monitor.txt.j2", monitored)


def monitor_markdown(monitored: MonitoredWindow) -> str:
    """The report for a job summary or an issue."""
    return _render("monitor.md.j2", monitored)


def _render(template: str, monitored: MonitoredWindow) -> str:
    """The report by a template of this package."""
    findings = _findings(monitored)
    rows = list(_rows(monitored))
    text = render_text_template(
        template,
        __package__,
        window=monitored,
        headline=headline(monitored),
        findings=findings,
        level_names=_LEVEL_NAMES,
        rows=rows,
        title=figure_title,
        show=show_figure,
        inline=markdown_inline,
    )
    return f"{text}\n"


def _findings(monitored: MonitoredWindow) -> list[Finding]:
    """The findings, the most important first."""
    order = list(_LEVEL_NAMES)
    return sorted(
        monitored.verdict.findings, key=lambda finding: order.index(finding.level)
    )


def _rows(monitored: MonitoredWindow) -> Iterator[Row]:
    """A row for each figure and metric."""
    for name, part in monitored.line.figures.items():
        before = monitored.before[name][-MAX_WINDOWS:]
        mean_before = float(np.mean(before)) if before else None
        yield Row(name, part.value, mean_before)
