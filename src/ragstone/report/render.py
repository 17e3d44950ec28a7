"""One entry point for all formats, and the JSON report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from ragstone.errors import ConfigError, suggestion
from ragstone.report.document import ReportDocument, SamplePart
from ragstone.report.escape import bounded, encodable
from ragstone.report.parts import ReportView

if TYPE_CHECKING:
    from ragstone.report.templates import Templates


def render_json(view: ReportView) -> str:
    """The report as indented JSON, with non-ASCII text escaped so that it can't affect a terminal or log.

    Nothing in it is a command to a runner that prints it.
    """
    shown = replace(view, worst=tuple(_bounded(sample) for sample in view.worst))
    body = encodable(ReportDocument.model_validate(shown).model_dump(mode="python"))
    text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"


def _bounded(sample: SamplePart) -> SamplePart:
    return replace(
        sample,
        question=bounded(sample.question),
        answer=bounded(sample.answer),
        baseline_answer=None if sample.baseline_answer is None else bounded(sample.baseline_answer),
        reference=None if sample.reference is None else bounded(sample.reference),
    )


Format = Literal["text", "md", "json", "junit", "html"]

FORMATS: tuple[Format, ...] = get_args(Format)

MARKDOWN_LIMIT = 65_000
"""Characters; GitHub allows 65,536 in a comment."""


def render(
    view: ReportView,
    format: Format,
    *,
    limit: int = MARKDOWN_LIMIT,
    templates: Templates | None = None,
    page: Iterable[str] = (),
) -> str:
    """`view` as text, the same on every machine.

    `page` are the lines of an HTML page with every sample (`report.page`); without them it has the rows of `view`.
    `limit` (characters) limits Markdown, by dropping detail. `templates` are the user's.
    ``text`` is plain and 120 columns wide; `terminal.render_text` supports colour and other widths.
    Raises ConfigError for an unknown format, or for an invalid template (with file and line).
    """
    if format == "text":
        from ragstone.report.terminal import render_text

        return render_text(view)
    if format == "md":
        from ragstone.report.markdown import render_markdown

        return render_markdown(view, limit=limit, templates=templates)
    if format == "json":
        from ragstone.report.render import render_json

        return render_json(view)
    if format == "junit":
        from ragstone.report.junit import render_junit

        return render_junit(view)
    if format == "html":
        from ragstone.report.html import render_html

        return render_html(view, page)
    raise ConfigError(f"unknown report format '{format}'.", hint=suggestion(format, FORMATS))
