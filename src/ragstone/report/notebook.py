"""Golden sets, runs and verdicts as small HTML fragments, for notebooks. Everything in them is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from ragstone.formatting import NONE, counted, dollars, score, seconds, some
from ragstone.gate.grouping import mean_of
from ragstone.golden.sample import GoldenSet
from ragstone.report import wording
from ragstone.report.escape import clip, markup, one_line
from ragstone.report.html_page import html_environment
from ragstone.report.markdown import ICONS
from ragstone.report.parts import MetricRow, ReportView
from ragstone.report.rows import check_reason
from ragstone.report.templates import PACKAGE
from ragstone.run.scores import RunScores

MAX_SAMPLES = 5
MAX_ROWS = 40
MAX_WARNINGS = 5
MAX_TEXT = 120


def golden_html(golden: GoldenSet) -> str:
    samples = golden.samples
    counts = (
        ("with a reference", sum(sample.reference is not None for sample in samples)),
        ("with reference contexts", sum(bool(sample.reference_contexts) for sample in samples)),
        ("with relevant ids", sum(bool(sample.relevant_ids) for sample in samples)),
        ("unanswerable", sum(not sample.answerable for sample in samples)),
    )
    found = ", ".join(f"{count:,} {what}" for what, count in counts if count)
    shown = samples[:MAX_SAMPLES]
    columns = {"id": [sample.id for sample in shown], "question": [sample.question for sample in shown]}
    optional = {
        "reference": [sample.reference or "" for sample in shown],
        "tags": [", ".join(sample.tags) for sample in shown],
    }
    columns |= {name: texts for name, texts in optional.items() if any(texts)}
    origin = f" from {some(list(golden.sources), 3)}" if golden.sources else ""
    return _fragment(
        headline=counted(len(golden), "sample") + origin,
        above=[found] if found else [],
        head=list(columns),
        rows=zip(*columns.values(), strict=True),
        below=[f"and {counted(len(samples) - len(shown), 'more sample')}"] if len(samples) > len(shown) else [],
    )


def run_html(scores: RunScores) -> str:
    """The metrics of a run: means with 95 % intervals, and how many samples have no score."""
    rows = []
    for name, metric in scores.metrics.items():
        low_high = NONE
        if metric.values:
            found = mean_of(scores, list(metric.values), list(metric.values.values()), confidence=0.95)
            low_high = f"[{score(found.low)},\u00a0{score(found.high)}]"
        counts = (len(metric.values), len(metric.not_applicable), len(metric.failed))
        rows.append((wording.metric_title(name), score(metric.mean), low_high, *(f"{count:,}" for count in counts)))
    manifest = scores.manifest
    below = []
    if manifest is not None:
        cost = manifest.cost
        spent = f", {dollars(cost.usd)}" if cost.calls or cost.cached_calls else ""
        below.append(f"Judge: {manifest.judge.label()}{spent}. Evaluated in {seconds(manifest.wall_s)}. {scores.label}")
    failed = len(scores.system.failures)
    verdict = manifest.verdict if manifest is not None else None
    return _fragment(
        headline=f"Run of {counted(len(scores.samples), 'sample')}",
        lead="" if verdict is None else f"verdict {verdict}",
        above=[f"The system failed on {counted(failed, 'sample')}."] if failed else [],
        head=("Metric", "Score", "95 % interval", "Scored", "Not applicable", "Failed"),
        rows=rows,
        below=below,
    )


def verdict_html(view: ReportView) -> str:
    """The verdict as at the top of a report: why, the metrics, other checks that don't pass, and the worst samples."""
    left = len(view.warnings) - MAX_WARNINGS
    more = [f"and {counted(left, 'more warning')}"] if left > 0 else []
    others = [(wording.status_word(row.check.status, row.check.action), row) for row in view.check_rows]
    open_ = [f"{ICONS[word]} {row.title}: {check_reason(row.check)}" for word, row in others if word != "pass"]
    below = open_[:MAX_WARNINGS]
    if view.attribution is not None:
        below.append(wording.sentence(str(view.attribution)))
    worst = [
        (sample.id, sample.question, wording.moved(sample.changes[0]))
        for sample in view.worst[:MAX_SAMPLES]
        if sample.changes
    ]
    return _fragment(
        headline=f"{ICONS[str(view.status)]} {view.headline.lead.rstrip('.:')}",
        lead=view.headline.fact,
        above=[f"⚠️ {warning}" for warning in view.warnings[:MAX_WARNINGS]] + more,
        head=("", "Metric", "Score", "Change", "Threshold", "State"),
        rows=[_row(row) for row in view.metrics[:MAX_ROWS]],
        below=below,
        worst=worst,
        worst_head=("id", "question", "change"),
        worst_heading=wording.worst_heading(view.worst),
    )


def framed_html(page: str) -> str:
    """A whole HTML page inside a notebook: in a frame of its own, which can't reach the notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Ragstone" '
        'style="width: 100%; height: 40em; border: 1px solid #8888"></iframe>'
    )


def _row(row: MetricRow) -> tuple[str, ...]:
    figures = wording.figures(row)
    return (
        ICONS[wording.status_word(row.status, row.action)],
        wording.row_name(row),
        figures.scored,
        figures.changed,
        " · ".join(wording.thresholds(row)),
        row.state,
    )


def _fragment(*, rows: Iterable[Sequence[str]], worst: Iterable[Sequence[str]] = (), **values: object) -> str:
    def cells(table: Iterable[Sequence[str]]) -> list[list[str]]:
        return [[clip(one_line(text), MAX_TEXT) for text in row] for row in table]

    absent = {"lead": "", "worst_head": (), "worst_heading": ""}
    template = html_environment(PACKAGE).get_template("notebook.html.j2")
    return template.render({**absent, **values, "rows": cells(rows), "worst": cells(worst)})


def _inert(text: str) -> Markup:
    """`text` for a page that isn't ours, which may typeset formulas: no ``$`` or backslash can start or end one."""
    escaped = str(escape(markup(text)))
    return Markup(escaped.replace("$", "<span>$</span>").replace("\\", "<span>\\</span>"))  # noqa: S704 - escaped


html_environment(PACKAGE).filters.update(inert=_inert)
