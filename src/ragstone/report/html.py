"""One self-contained HTML page: no network, works from a downloaded artifact, in light and dark mode."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from ragstone import formatting
from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.verdict import CHANGES, LEVELS
from ragstone.printable import clean as visible
from ragstone.report import plots, trend, wording
from ragstone.report.escape import bounded, url
from ragstone.report.html_page import Verbatim, html_environment, render_page
from ragstone.report.page import cell, pack, read_line, state
from ragstone.report.parts import ReportView
from ragstone.report.rows import check_reason, marked_title
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, read_template

_STATIC_ROWS = 100
"""Rows of the table of samples that are there without JavaScript."""
_COLUMNS = 8
"""Metrics in that table at once, so that it fits; report.js has the same number."""
_ARTICLES = 20
"""Samples that got worse, shown above the table."""


def render_html(view: ReportView, page: Iterable[str] = ()) -> str:
    """The page. Styles and script are inline, and its content security policy allows only their hashes.

    `page` are lines with every sample; without them, the page has the rows of `view`. What is packed in them can't run,
    whoever wrote it.
    """
    packed = [line for line in map(read_line, page) if line is not None]
    texts = any(line.kind == "t" for line in packed)
    listed = view.samples_total if packed else len(view.samples)
    if not packed:
        packed = [line for line in map(read_line, pack(((row, None) for row in view.samples), str)) if line is not None]
    return render_page(
        "report.html.j2",
        styles=(read_template("report.css"),),
        script=read_template("report.js"),
        view=view,
        first=next(summaries(view)),
        page=[{"kind": line.kind, "body": Verbatim(line.body)} for line in packed],
        texts=texts,
        rows=view.samples[:_STATIC_ROWS],
        listed=listed,
        columns=_COLUMNS,
        articles=_ARTICLES,
        floor_axis=plots.axis_for(view.checks, LEVELS),
        drop_axis=plots.axis_for(view.checks, CHANGES),
        checks={(check.kind, check.metric, check.slice): check for check in view.checks},
        ways=(HIGHER, LOWER),
        plots=plots,
        trend=trend,
        dollars=formatting.dollars,
        count=formatting.counted,
        wording=wording,
    )


html_environment(PACKAGE).filters.update(
    address=lambda place: None if place is None else url(place.url),
    bounded=bounded,
    cell=cell,
    check_reason=check_reason,
    fragment=lambda sample_id: quote(visible(sample_id), safe=""),  # its id is as `page.row_values` writes it
    marked_title=marked_title,
    metric_title=wording.metric_title,
    sentence=wording.sentence,
    state=state,
    worst_heading=wording.worst_heading,
)
