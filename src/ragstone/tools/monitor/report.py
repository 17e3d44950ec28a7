"""What was found in a window, as text and Markdown. No text of an interaction is in
it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.gate.findings import Finding, Level
from ragstone.report.escape import markdown_inline
from ragstone.report.templates import render_text_template
from ragstone.tools.monitor.findings import WINDOWS
from ragstone.tools.monitor.monitor import Monitored
from ragstone.tools.monitor.window import figure_title, show_figure

_MARKS = {
    Level.FAILURE: "ALERT",
    Level.ERROR: "ERROR",
    Level.WARNING: "warning",
    Level.NOTE: "note",
}
_ICONS = {"pass": "✅", "fail": "❌", "error": "🚫"}

Row = tuple[str, float, float | None]
"""A figure or metric, its value, and its mean over the windows before."""


def headline(monitored: Monitored) -> str:
    """Line one: the window, and the verdict on it."""
    return (
        f"{_ICONS[monitored.line.verdict]} {monitored.name}: {monitored.verdict.reason}"
    )


def monitor_text(monitored: Monitored, template: str = "monitor.txt.j2") -> str:
    """For a terminal or a log, or by another template of this package."""
    findings = _findings(monitored)
    rows = list(_rows(monitored))
    text = render_text_template(
        template,
        __package__,
        window=monitored,
        headline=headline(monitored),
        findings=findings,
        marks=_MARKS,
        rows=rows,
        title=figure_title,
        show=show_figure,
        inline=markdown_inline,
    )
    return f"{text}\n"


def monitor_markdown(monitored: Monitored) -> str:
    """For a job summary or an issue."""
    return monitor_text(monitored, "monitor.md.j2")


def _findings(monitored: Monitored) -> list[Finding]:
    """The findings, the most important first."""
    order = list(_MARKS)
    return sorted(
        monitored.verdict.findings, key=lambda finding: order.index(finding.level)
    )


def _rows(monitored: Monitored) -> Iterator[Row]:
    for name, part in monitored.line.figures.items():
        before = monitored.before[name][-WINDOWS:]
        mean = float(np.mean(before)) if before else None
        yield name, part.value, mean
