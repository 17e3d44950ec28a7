"""Golden sets and runs as small HTML tables, for notebooks. Everything in them is
escaped."""

from __future__ import annotations

import html

from markupsafe import Markup, escape

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.formatting import NONE, counted, score
from ragstone.gate.grouping import mean_of
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.registry import metric_title
from ragstone.report.escape import clip, markup, one_line
from ragstone.report.html_page import html_environment
from ragstone.report.templates import PACKAGE

MAX_TEXT = 120
MAX_SAMPLES = 5


def golden_html(golden: GoldenSet) -> str:
    """The first samples of a golden set."""
    rows = [
        [sample.id, sample.question, sample.reference or ""]
        for sample in golden.samples[:MAX_SAMPLES]
    ]
    title = f"First of {counted(len(golden), 'sample')}"
    return _table(title, ["id", "question", "reference"], rows)


def run_html(scores: RunScores) -> str:
    """The metrics of a run: means with 95 % intervals, and how many samples have no
    score."""
    rows = []
    for name, metric in scores.metrics.items():
        samples = (metric.values, metric.not_applicable, metric.failed)
        counts = [f"{len(part):,}" for part in samples]
        mean = score(metric.mean)
        rows.append([metric_title(name), mean, _interval(scores, metric), *counts])
    head = ["Metric", "Score", "95 % interval", "Scored", "Not applicable", "Failed"]
    return _table(f"Run of {counted(len(scores.samples), 'sample')}", head, rows)


def framed_html(page: str) -> str:
    """A whole HTML page inside a notebook: in a frame of its own, which can't reach the
    notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Ragstone" '
        'style="width: 100%; height: 40em; border: 1px solid #8888"></iframe>'
    )


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    template = html_environment(PACKAGE).get_template("notebook.html.j2")
    return template.render(title=title, head=head, rows=rows)


def _interval(scores: RunScores, metric: MetricScores) -> str:
    if not metric.values:
        return NONE
    mean = mean_of(
        scores, list(metric.values), list(metric.values.values()), confidence=0.95
    )
    return f"[{score(mean.low)},\u00a0{score(mean.high)}]"


def _inert(text: str) -> Markup:
    """`text` for a page that isn't ours, which may typeset formulas: no ``$`` or
    backslash can start or end one."""
    escaped = str(escape(markup(clip(one_line(text), MAX_TEXT))))
    return Markup(  # noqa: S704 - escaped
        escaped.replace("$", "<span>$</span>").replace("\\", "<span>\\</span>")
    )


html_environment(PACKAGE).filters["inert"] = _inert
