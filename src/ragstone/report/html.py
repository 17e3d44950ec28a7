"""Renders the report as one self-contained HTML page, which needs no network and works
from a downloaded artifact, in light and dark mode."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.printable import clean
from ragstone.report.escape import safe_url
from ragstone.report.html_page import html_environment, render_page
from ragstone.report.page import PackedChunk, pack, shown_cell
from ragstone.report.parts import Document
from ragstone.report.summary import summary_of
from ragstone.report.templates import PACKAGE, read_template

_MAX_METRIC_COLUMNS = 8
"""Number of metrics that the table of samples shows at once; the same as COLUMNS in
report.js."""

_MAX_WORST_SAMPLES = 20
"""Number of samples that got worse that are shown above the table."""


def render_html(report: Document, packed_samples: Iterable[PackedChunk] = ()) -> str:
    """Render the report as an HTML page.

    `packed_samples` are all samples, with their texts; without them, the page has the
    rows of the document. Styles and script are inline, and the content security policy of
    the page allows only their hashes.
    """
    rows = report.samples.rows
    chunks = list(packed_samples)
    shown_count = report.samples.total if chunks else len(rows)
    chunks = chunks or list(pack(((row, None) for row in rows), str))
    return render_page(
        "report.html.j2",
        styles=(read_template("report.css"),),
        script=read_template("report.js"),
        report=report,
        summary=summary_of(report),
        chunks=chunks,
        has_texts=any(chunk.kind == "texts" for chunk in chunks),
        shown_count=shown_count,
        max_columns=_MAX_METRIC_COLUMNS,
        max_worst=_MAX_WORST_SAMPLES,
    )


# All HTML templates of this package share one environment.
html_environment(PACKAGE).filters.update(
    clean=clean, safe_url=safe_url, shown_cell=shown_cell
)
