"""One entry point for all formats."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from ragstone.errors import ConfigError, suggestion
from ragstone.report.escape import plain
from ragstone.report.parts import Document

if TYPE_CHECKING:
    from ragstone.report.templates import Templates


Format = Literal["text", "md", "json", "junit", "html"]

FORMATS: tuple[Format, ...] = get_args(Format)

MARKDOWN_LIMIT = 65_000
"""Characters; GitHub allows 65,536 in a comment."""


def render(
    report: Document,
    format: Format,
    *,
    limit: int = MARKDOWN_LIMIT,
    templates: Templates | None = None,
    page: Iterable[str] = (),
) -> str:
    """`report` as text, the same on every machine.

    `page` are the lines of an HTML page with every sample (`report.page`); without them
    it has those of `report`. `limit` (characters) limits Markdown, by dropping detail.
    `templates` are the user's. ``text`` is plain and 120 columns wide;
    `terminal.render_text` supports colour and other widths. Raises ConfigError for an
    unknown format, or for an invalid template (with file and line).
    """
    match format:
        case "text":
            from ragstone.report.terminal import render_text

            return render_text(report)
        case "md":
            from ragstone.report.markdown import render_markdown

            return render_markdown(report, limit=limit, templates=templates)
        case "json":
            body = plain(report)
            text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
            # Nothing affects a terminal or log, and nothing is a command to a runner.
            return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"
        case "junit":
            from ragstone.report.junit import render_junit

            return render_junit(report)
        case "html":
            from ragstone.report.html import render_html

            return render_html(report, page)
    raise ConfigError(
        f"unknown report format '{format}'.", hint=suggestion(format, FORMATS)
    )
