"""One self-contained HTML page: no network, works from a downloaded artifact, in light
and dark mode."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from ragstone.printable import clean as visible
from ragstone.report.escape import url
from ragstone.report.html_page import html_environment, render_page
from ragstone.report.page import cell, pack
from ragstone.report.parts import Document
from ragstone.report.summary import summary_of
from ragstone.report.templates import PACKAGE, read_template

_COLUMNS = 8
"""Metrics in the table of samples at once, so that it fits; report.js has the same
number."""
_ARTICLES = 20
"""Samples that got worse, shown above the table."""


def render_html(report: Document, page: Iterable[str] = ()) -> str:
    """The page. Styles and script are inline, and its content security policy allows
    only their hashes.

    `page` are lines with every sample; without them, the page has the rows of the
    document.
    """
    lines = list(page)
    rows = report.samples.rows
    return render_page(
        "report.html.j2",
        styles=(read_template("report.css"),),
        script=read_template("report.js"),
        report=report,
        summary=summary_of(report),
        page=lines or pack(((row, None) for row in rows), str),
        texts=any(line.startswith("t") for line in lines),
        listed=report.samples.total if lines else len(rows),
        columns=_COLUMNS,
        articles=_ARTICLES,
    )


html_environment(PACKAGE).filters.update(
    address=lambda place: None if place is None else url(place.url),
    cell=cell,
    fragment=lambda sample_id: quote(
        visible(sample_id), safe=""
    ),  # its id is as `page.row_values` writes it
)
