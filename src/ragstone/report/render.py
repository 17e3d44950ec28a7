"""Renders a report in any format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from ragstone.errors import ConfigError, suggestion
from ragstone.report.escape import to_json_types
from ragstone.report.parts import Document

if TYPE_CHECKING:
    from ragstone.report.page import PackedChunk
    from ragstone.report.templates import Templates


Format = Literal["text", "md", "json", "junit", "html"]

FORMATS: tuple[Format, ...] = get_args(Format)

MAX_MARKDOWN_CHARACTERS = 65_000
"""GitHub allows 65,536 in a comment."""


def render(
    report: Document,
    format: Format,
    *,
    limit: int = MAX_MARKDOWN_CHARACTERS,
    templates: Templates | None = None,
    packed_samples: Iterable[PackedChunk] = (),
) -> str:
    """Return `report` in a format, the same on every machine.

    `limit` is the maximum length of Markdown, in characters: a longer report has less
    detail. `templates` are the user's, for Markdown. `packed_samples` are all samples, for
    HTML; without them, the page has those of `report`. Text is 120 columns wide and
    without colour: see `terminal.render_text` for others. Raises ConfigError for an
    unknown format, or for an invalid template, with file and line.
    """
    match format:
        case "text":
            from ragstone.report.terminal import render_text

            return render_text(report)
        case "md":
            from ragstone.report.markdown import render_markdown

            return render_markdown(report, limit=limit, templates=templates)
        case "json":
            body = to_json_types(report)
            text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
            # ASCII alone can't reorder text; the rest would be a control character, or a
            # command to a runner.
            return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"
        case "junit":
            from ragstone.report.junit import render_junit

            return render_junit(report)
        case "html":
            from ragstone.report.html import render_html

            return render_html(report, packed_samples)
    raise ConfigError(
        f"unknown report format '{format}'.", hint=suggestion(format, FORMATS)
    )
