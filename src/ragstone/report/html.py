"""One self-contained HTML page: no network, works from a downloaded artifact, in light and dark mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from ragstone import formatting
from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.verdict import CHANGES, LEVELS, Check
from ragstone.printable import clean as visible
from ragstone.report import plots, wording
from ragstone.report.escape import bounded, url
from ragstone.report.html_page import Verbatim, html_environment, render_page
from ragstone.report.page import MAX_ROWS, cell, pack, read_line, state
from ragstone.report.parts import PlacePart, ReportView
from ragstone.report.rows import check_reason, marked_title
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, read_template
from ragstone.report.trend import HEIGHT as TREND_HEIGHT
from ragstone.report.trend import WIDTH as TREND_WIDTH
from ragstone.report.trend import picture

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
    listed = min(view.samples_total, MAX_ROWS) if packed else len(view.samples)
    if not packed:
        packed = [line for line in map(read_line, pack(((row, None) for row in view.samples), str)) if line is not None]
    floors, drops = plots.axis_for(view.checks, LEVELS), plots.axis_for(view.checks, CHANGES)
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
        metrics=_metrics(view, floors, drops),
        floor_axis=floors,
        drop_axis=drops,
        differences=[
            {"title": found.title, "worse": found.worse, "same": found.same, "better": found.better}
            | {"plot": plots.histogram(found)}
            for found in view.differences
        ],
        ranks=plots.rank_bars(view.contexts_used) if view.contexts_used else (),
        checks=[_check(check) for check in view.checks],
        trends=[
            {"title": wording.metric_title(trend.metric), "now": trend.values[-1], "first": trend.values[0]}
            | {"plot": picture(trend), "since": f"{trend.points[0].time:%Y-%m-%d}", "runs": len(trend.points)}
            for trend in view.trends
        ],
        trend_width=TREND_WIDTH,
        trend_height=TREND_HEIGHT,
        width=plots.WIDTH,
        dollars=formatting.dollars,
        count=formatting.counted,
        wording=wording,
    )


def _address(place: PlacePart | None) -> str | None:
    return None if place is None else url(place.url)


def _fragment(sample_id: str) -> str:
    """The end of a link to a sample in the page, where its id is as `page.row_values` writes it."""
    return quote(visible(sample_id), safe="")


html_environment(PACKAGE).filters.update(
    address=_address,
    bounded=bounded,
    cell=cell,
    fragment=_fragment,
    metric_title=wording.metric_title,
    sentence=wording.sentence,
    state=state,
    worst_heading=wording.worst_heading,
)


def _metrics(view: ReportView, floors: plots.Axis | None, drops: plots.Axis | None) -> list[dict[str, Any]]:
    checks = {(check.kind, check.metric, check.slice): check for check in view.checks}
    found = []
    for row in view.metrics:
        way = LOWER if row.lower_is_better else HIGHER
        found.append(
            {
                "row": row,
                "word": wording.status_word(row.status, row.action),
                **asdict(wording.figures(row)),
                "spread": wording.spread(row),
                "thresholds": wording.thresholds(row),
                "floor": _drawn(checks.get((way.level, row.metric, row.slice)), floors),
                "drop": _drawn(checks.get((way.change, row.metric, row.slice)), drops),
            }
        )
    return found


def _drawn(check: Check | None, axis: plots.Axis | None) -> dict[str, Any] | None:
    found = plots.mark(check, axis)
    if found is None or check is None:
        return None
    return {**asdict(found), "word": wording.status_word(check.status, check.action), "reason": check.reason}


def _check(check: Check) -> dict[str, Any]:
    return {
        "title": marked_title(check),
        "word": wording.status_word(check.status, check.action),
        "reason": check_reason(check),
        "n": f"{check.n:,}" if check.n else "–",
        "method": f"{formatting.percent(check.interval.confidence)} interval, {check.interval.method}"
        if check.interval
        else "",
    }
