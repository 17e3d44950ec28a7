"""Renders Markdown for a comment or a job summary, with less and less detail until it
fits."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragstone.printable import clean, without_commands
from ragstone.report import escape
from ragstone.report.filters import FILTERS, ICONS, importance
from ragstone.report.parts import Document
from ragstone.report.sandbox import SafeText, to_text
from ragstone.report.summary import SUMMARY_LIMITS, cut_summary, summary_of
from ragstone.report.templates import (
    REPORT,
    SHIPPED_REPORT,
    Templates,
    render_template,
)


class Detail(Struct, frozen=True):
    """How much a report shows at most. Templates use these names."""

    rows: int
    worst: int
    statements: int
    text: int
    """The number of characters of a text."""
    answer: int
    """The number of characters of an answer."""
    groups: int
    """The number of groups of failed samples, and of ids in each."""
    checks: int
    notes: int
    """The number of notes, and of warnings."""


DETAIL_LEVELS = (
    Detail(200, 3, 5, 600, 400, 10, 60, 20),
    Detail(60, 3, 3, 240, 400, 6, 30, 20),
    Detail(12, 3, 1, 160, 0, 2, 0, 6),
    Detail(0, 0, 0, 80, 0, 0, 0, 2),
)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, where an emoji counts as two: the strictest way
    in which GitHub may count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_markdown(
    report: Document, *, limit: int, templates: Templates | None
) -> str:
    """Render the report in at most `limit` characters, with the most detailed of
    DETAIL_LEVELS that fits.

    `templates` are the user's; if they don't fit at any level, the shipped template is
    used. The line with the verdict comes before the template's output, so that no
    template can omit or replace it. Raises ConfigError for an invalid template,
    ValueError if not even the verdict fits.
    """
    line_one = verdict_line(report)
    names = [SHIPPED_REPORT]
    if templates is not None:
        names = [REPORT, SHIPPED_REPORT]
    for name in names:
        for detail in DETAIL_LEVELS:
            values = template_values(report, detail)
            body = render_template(name, values, template_filters(detail), templates)
            text = without_commands(f"{line_one}\n\n{body}")
            if utf16_length(text) <= limit:
                return text
    raise ValueError(f"a limit of {limit} characters is too small for a verdict")


def verdict_line(report: Document) -> str:
    """Return line one as a heading."""
    line_one = escape.clip(report.verdict.headline, 300)
    icon = ICONS[str(report.verdict.status)]
    return f"## {icon} {escape.markdown_inline(line_one)}"


def template_values(report: Document, detail: Detail) -> dict[str, object]:
    """Return what a template can use by name, with as many metrics and samples as the
    level of detail allows."""
    metrics = report.metrics
    if len(metrics) > detail.rows:
        metrics = tuple(sorted(metrics, key=importance)[: detail.rows])
    worst = report.samples.worst[: detail.worst]
    failures = report.samples.failures[: detail.groups]
    samples = replace(
        report.samples,
        worst=worst,
        worst_omitted=report.samples.worst_total - len(worst),
        failures=failures,
    )
    summary = summary_of(report)
    if not detail.rows:
        summary = cut_summary(report, SUMMARY_LIMITS[-1])
    return {
        "report": replace(report, metrics=metrics, samples=samples),
        "summary": summary,
        "detail": detail,
        "omitted": {
            "metrics": len(report.metrics) - len(metrics),
            "failures": len(report.samples.failures) - len(failures),
        },
    }


def template_filters(detail: Detail) -> Mapping[str, Callable[..., Any]]:
    """Return the filters of templates, by name. Their results are escaped when they are
    printed, except for `SafeText`."""
    return {
        **FILTERS,
        "clip": lambda text, size=detail.text: escape.clip(to_text(text), int(size)),
        "code": lambda text: SafeText(escape.markdown_code(to_text(text))),
        "fence": lambda text: SafeText(
            escape.markdown_fence(wrap_lines(escape.clip(to_text(text), detail.answer)))
        ),
        "lines": lambda lines: SafeText(
            escape.markdown_fence("\n".join(map(to_text, lines)))
        ),
        "link": lambda text, url: SafeText(
            escape.markdown_link(to_text(text), None if url is None else to_text(url))
        ),
        "omitted": lambda items, shown: max(0, len(items) - shown),
    }


def wrap_lines(text: str, width: int = 100) -> str:
    """Wrap long lines, which GitHub doesn't wrap inside a fence."""
    lines = clean(text).split("\n")
    return "\n".join(
        textwrap.fill(line, width, replace_whitespace=False) for line in lines
    )
