"""One self-contained HTML page: no network, works from a downloaded artifact, in light and dark mode."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.verdict import CHANGES, LEVELS
from ragstone.printable import clean as visible
from ragstone.report import plots
from ragstone.report.escape import url
from ragstone.report.html_page import Verbatim, html_environment, render_page
from ragstone.report.page import cell, pack, read_line
from ragstone.report.parts import Document
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, read_template

_COLUMNS = 8
"""Metrics in the table of samples at once, so that it fits; report.js has the same number."""
_ARTICLES = 20
"""Samples that got worse, shown above the table."""


def render_html(report: Document, page: Iterable[str] = ()) -> str:
    """The page. Styles and script are inline, and its content security policy allows only their hashes.

    `page` are lines with every sample; without them, the page has the rows of the document. What is packed in them
    can't run, whoever wrote it.
    """
    lines = [line for line in map(read_line, page) if line is not None]
    has_texts = any(line.kind == "t" for line in lines)
    listed = report.samples.total if lines else len(report.samples.rows)
    if not lines:
        packed = pack(((row, None) for row in report.samples.rows), str)
        lines = [line for line in map(read_line, packed) if line is not None]
    return render_page(
        "report.html.j2",
        styles=(read_template("report.css"),),
        script=read_template("report.js"),
        report=report,
        summary=next(summaries(report)),
        page=[{"kind": line.kind, "body": Verbatim(line.body)} for line in lines],
        texts=has_texts,
        listed=listed,
        columns=_COLUMNS,
        articles=_ARTICLES,
        floor_axis=plots.axis_for(report.checks, LEVELS),
        drop_axis=plots.axis_for(report.checks, CHANGES),
        checks={(check.kind, check.metric, check.slice): check for check in report.checks},
        directions=(HIGHER, LOWER),
        plots=plots,
    )


html_environment(PACKAGE).filters.update(
    address=lambda place: None if place is None else url(place.url),
    cell=cell,
    fragment=lambda sample_id: quote(visible(sample_id), safe=""),  # its id is as `page.row_values` writes it
)
