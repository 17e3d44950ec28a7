"""Markdown for a comment or a job summary, rendered with less and less detail until it
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
from ragstone.report.summary import ROOMS, cut_summary, summary_of
from ragstone.report.templates import (
    OURS,
    REPORT,
    Templates,
    render_template,
)


class Detail(Struct, frozen=True):
    """How much a report shows. Counts are upper bounds."""

    rows: int
    worst: int
    statements: int
    text: int
    """Characters of a text."""
    answer: int
    """Characters of an answer."""
    groups: int
    """Of failed samples, and ids in each."""
    checks: int
    notes: int
    """And warnings."""


LEVELS = (
    Detail(200, 3, 5, 600, 400, 10, 60, 20),
    Detail(60, 3, 3, 240, 400, 6, 30, 20),
    Detail(12, 3, 1, 160, 0, 2, 0, 6),
    Detail(0, 0, 0, 80, 0, 0, 0, 2),
)


def length(text: str) -> int:
    """Length by the strictest measure: in UTF-16 units, where an emoji counts as
    two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_markdown(
    report: Document, *, limit: int, templates: Templates | None
) -> str:
    """The report in at most `limit` characters: the most detailed of LEVELS that fits.

    `templates` are the user's. If they do not fit at any level, the built-in one is
    used. The line with the verdict comes before the template's output, so that no
    template can omit or replace it. Raises ConfigError for an invalid template,
    ValueError if not even the verdict fits into `limit`.
    """
    line_one = verdict_line(report)
    for name in [REPORT, OURS] if templates is not None else [OURS]:
        for detail in LEVELS:
            values = context(report, detail)
            text = render_template(name, values, filters(detail), templates)
            whole = without_commands(f"{line_one}\n\n{text}")
            if length(whole) <= limit:
                return whole
    raise ValueError(f"a limit of {limit} characters is too small for a verdict")


def verdict_line(report: Document) -> str:
    """Line one, as a heading."""
    line_one = escape.clip(report.verdict.headline, 300)
    icon = ICONS[str(report.verdict.status)]
    return f"## {icon} {escape.markdown_inline(line_one)}"


def context(report: Document, detail: Detail) -> dict[str, object]:
    """What a template finds: the document with as many metrics and samples as the level
    of detail allows."""
    metrics = report.metrics
    if len(metrics) > detail.rows:
        metrics = tuple(sorted(metrics, key=importance)[: detail.rows])
    worst = report.samples.worst[: detail.worst]
    failures = report.samples.failures[: detail.groups]
    left_out = report.samples.worst_total - len(worst)
    samples = replace(
        report.samples, worst=worst, worst_omitted=left_out, failures=failures
    )
    summary = summary_of(report)
    if not detail.rows:
        summary = cut_summary(report, ROOMS[-1])
    return {
        "report": replace(report, metrics=metrics, samples=samples),
        "summary": summary,
        "detail": detail,
        "omitted": {
            "metrics": len(report.metrics) - len(metrics),
            "failures": len(report.samples.failures) - len(failures),
        },
    }


def filters(detail: Detail) -> Mapping[str, Callable[..., Any]]:
    """Filters for templates. What they return is escaped when it is printed, unless it
    is `SafeText`."""
    return {
        **FILTERS,
        "clip": lambda text, size=detail.text: escape.clip(to_text(text), int(size)),
        "code": lambda text: SafeText(escape.markdown_code(to_text(text))),
        "fence": lambda text: SafeText(
            escape.markdown_fence(wrapped(escape.clip(to_text(text), detail.answer)))
        ),
        "lines": lambda lines: SafeText(
            escape.markdown_fence("\n".join(map(to_text, lines)))
        ),
        "link": lambda text, url: SafeText(
            escape.markdown_link(to_text(text), None if url is None else to_text(url))
        ),
        "omitted": lambda items, shown: max(0, len(items) - shown),
    }


def wrapped(text: str, width: int = 100) -> str:
    """`text` with long lines wrapped: a fence doesn't wrap them."""
    lines = clean(text).split("\n")
    return "\n".join(
        textwrap.fill(line, width, replace_whitespace=False) for line in lines
    )
