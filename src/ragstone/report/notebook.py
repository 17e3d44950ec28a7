"""Golden sets, runs and verdicts as small HTML fragments, for notebooks. Everything in
them is escaped."""

from __future__ import annotations

import html

from markupsafe import Markup, escape

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.formatting import NONE, score
from ragstone.gate.grouping import mean_of
from ragstone.golden.sample import GoldenSet
from ragstone.report.escape import clip, markup, one_line
from ragstone.report.html_page import html_environment
from ragstone.report.parts import Document
from ragstone.report.templates import PACKAGE

MAX_TEXT = 120


def golden_html(golden: GoldenSet) -> str:
    return _rendered(golden=golden)


def run_html(scores: RunScores) -> str:
    """The metrics of a run: means with 95 % intervals, and how many samples have no
    score."""
    return _rendered(scores=scores, interval=_interval)


def verdict_html(report: Document) -> str:
    """The verdict as at the top of a report: why, the metrics, other checks that don't
    pass, and the worst samples."""
    return _rendered(report=report)


def framed_html(page: str) -> str:
    """A whole HTML page inside a notebook: in a frame of its own, which can't reach the
    notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Ragstone" '
        'style="width: 100%; height: 40em; border: 1px solid #8888"></iframe>'
    )


def _rendered(**values: object) -> str:
    return html_environment(PACKAGE).get_template("notebook.html.j2").render(values)


def _interval(scores: RunScores, metric: MetricScores) -> str:
    if not metric.values:
        return NONE
    mean = mean_of(
        scores, list(metric.values), list(metric.values.values()), confidence=0.95
    )
    return f"[{score(mean.low)},\u00a0{score(mean.high)}]"


def _short(text: str) -> str:
    return clip(one_line(text), MAX_TEXT)


def _inert(text: str) -> Markup:
    """`text` for a page that isn't ours, which may typeset formulas: no ``$`` or
    backslash can start or end one."""
    escaped = str(escape(markup(text)))
    return Markup(  # noqa: S704 - escaped
        escaped.replace("$", "<span>$</span>").replace("\\", "<span>\\</span>")
    )


html_environment(PACKAGE).filters.update(inert=_inert, short=_short)
