"""The history as a page: trends of the metrics and of production, versions one by one,
and chosen ones side by side.

The page is static: no script, nothing from a network, and everything in it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, dollars, score, seconds
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.history.column import run_name
from ragstone.history.file import History
from ragstone.history.lines import RunLine
from ragstone.metrics.registry import metric_title
from ragstone.report.escape import clip, url
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.stats.estimate import Estimate
from ragstone.tools.history_page.charts import HEIGHT, WIDTH, Chart, Point, chart_of
from ragstone.tools.history_page.marks import Mark, marks
from ragstone.tools.history_page.versions import (
    mean_of,
    paired_changes,
    run_before,
    why_not_paired,
)
from ragstone.tools.monitor.window import figure_title, show_figure

MAX_ROWS = 100
"""Runs in the table of a page, the newest."""

MAX_POINTS = 60
"""Runs or windows in a chart, the newest."""

MAX_METRICS = 20
"""Metrics in a page, those of the newest runs."""

_PACKAGE = "ragstone.tools.history_page"
_MIN_SCORE_SPAN = 0.1
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_BREAKS = ("judge", "golden", "metric", "part")


class VersionRow(Struct, frozen=True):
    """A run of the table, with the changes of its means from the run before, on the
    questions of both.

    `is_commit`: its commit can be linked to. `below` are the metrics that were below
    the level of the branch.
    """

    run: RunLine
    is_commit: bool
    marks: Sequence[str]
    changes: Mapping[str, float]
    below: Sequence[str]


class ComparedCell(Struct, frozen=True):
    """A metric of a version: its mean, and the difference to the first version or why
    there is none.

    `word` is ``better`` or ``worse`` if the interval excludes 0.
    """

    mean: str
    difference: Estimate | None = None
    reason: str | None = None
    word: str = ""


class HistoryPage(Struct, frozen=True):
    """What the page shows. `notes` are sentences for its top; `repository` is an
    address for links.

    `versions` are side by side in `comparison`, by metric; the first is the one that
    the others are compared with.
    """

    count: int
    notes: Sequence[str]
    metrics: Sequence[str]
    charts: Sequence[Chart]
    production: Sequence[Chart]
    rows: Sequence[VersionRow]
    versions: Sequence[str]
    comparison: Mapping[str, Sequence[ComparedCell]]
    repository: str | None


def history_page(
    history: History,
    policy: Policy,
    *,
    versions: Sequence[RunLine] = (),
    repository: str | None = None,
    notes: Sequence[str] = (),
) -> HistoryPage:
    """The page of `history`, on which `versions` are compared.

    Without versions, the newest run is compared with the one before it. `repository` is
    its address on GitHub, for links. Thresholds are those of `policy`: the history
    doesn't have the ones that were in force then.
    """
    runs = tuple(run for run in history.runs if run.window is None)
    names: dict[str, None] = {}
    for run in reversed(runs):
        names |= dict.fromkeys(run.metrics)
    metrics = tuple(names)
    notes = [*notes]
    if len(runs) > MAX_ROWS:
        notes.append(
            f"The table shows the newest {MAX_ROWS} of {counted(len(runs), 'run')}."
        )
    if len(metrics) > MAX_METRICS:
        metric_count = counted(len(metrics), "metric")
        notes.append(
            f"The page shows {MAX_METRICS} of {metric_count}, those of the newest runs."
        )
    marks_by_place = []
    before = None
    for run in runs:
        marks_by_place.append(list(marks(run, before)))
        before = run
    builder = _PageBuilder(history, runs, policy, metrics[:MAX_METRICS], marks_by_place)
    newest = len(runs) - 1
    previous = run_before(runs, newest)
    if not versions and previous is not None:
        versions = [previous, runs[newest]]
    windows = history.windows[-MAX_POINTS:]
    production = window_charts(windows)
    newest_first = range(newest, -1, -1)
    charts = list(filter(None, builder.charts()))
    rows = list(map(builder.row, newest_first[:MAX_ROWS]))
    comparison = builder.comparison(versions) if versions else {}
    return HistoryPage(
        count=len(runs),
        notes=notes,
        metrics=builder.metrics,
        charts=charts,
        production=list(filter(None, production)),
        rows=rows,
        versions=[run.release or run.system or run_name(run) for run in versions],
        comparison=comparison,
        repository=url(repository),
    )


def render_history(page: HistoryPage) -> str:
    """The page as HTML, which its security policy allows no script and no request."""
    stylesheet = read_template("history.css", _PACKAGE)
    return render_page(
        "history.html.j2",
        package=_PACKAGE,
        styles=(stylesheet,),
        title="RAG quality history",
        page=page,
        width=WIDTH,
        height=HEIGHT,
        metric_title=metric_title,
    )


def window_charts(windows: Sequence[RunLine]) -> Iterator[Chart | None]:
    """A chart for each figure of production, and each metric of its samples."""
    names: dict[str, None] = {}
    for line in windows:
        names |= dict.fromkeys(line.figures)
    for name in names:
        points = []
        for line in windows:
            part = line.figures.get(name)
            value = None if part is None else part.value
            is_alert = line.window is not None and name in line.window.alerts
            word = "fail" if is_alert else "pass"
            label = show_figure(name, value)
            points.append(Point(line.time, value, word, label))
        title = figure_title(name).capitalize()
        show = partial(show_figure, name)
        yield chart_of(title, points, show)


class _PageBuilder(Struct):
    """The parts of the page of one history, of which `runs` are no windows of
    production."""

    history: History
    runs: Sequence[RunLine]
    policy: Policy
    metrics: Sequence[str]
    marks: Sequence[Sequence[Mark]]

    def charts(self) -> Iterator[Chart | None]:
        """A chart for each metric, and those of latency and cost."""
        outline = RunScores(
            "",
            {metric: MetricScores({"": 0.0}) for metric in self.metrics},
            {"": SampleFacts()},
        )
        # The floor or ceiling of each metric over all samples.
        floors: dict[str, float] = {}
        for rule in resolve_rules(self.policy, outline):
            if rule.min is not None and not rule.slice:
                floors[rule.metric] = rule.direction.shown(rule.min)
        recent = range(len(self.runs))[-MAX_POINTS:]
        for metric in self.metrics:
            title = metric_title(metric)
            points = [self._point(place, metric) for place in recent]
            yield chart_of(
                title,
                points,
                score,
                limit=floors.get(metric),
                min_span=_MIN_SCORE_SPAN,
            )
        latencies = []
        costs = []
        for run in self.runs[-MAX_POINTS:]:
            latency = seconds(run.latency_p50_s)
            latencies.append(_point_of(run, run.latency_p50_s, latency))
            cost = dollars(run.cost_usd)
            costs.append(_point_of(run, run.cost_usd, cost))
        yield chart_of("Latency of the system (median)", latencies, seconds)
        yield chart_of("Cost of judging", costs, dollars)

    def comparison(
        self, versions: Sequence[RunLine]
    ) -> dict[str, Sequence[ComparedCell]]:
        """The cells of `versions`, beside the first of them, by the title of what is
        compared."""
        rows: dict[str, Sequence[ComparedCell]] = {}
        for metric in self.metrics:
            if any(metric in run.metrics for run in versions):
                rows[metric_title(metric)] = [
                    self._compared(versions[0], run, metric) for run in versions
                ]
        rows["Latency (median)"] = [
            ComparedCell(seconds(run.latency_p50_s)) for run in versions
        ]
        return rows

    def _compared(self, reference: RunLine, run: RunLine, metric: str) -> ComparedCell:
        mean = score(mean_of(run, metric), 3)
        if run is reference or metric not in run.metrics:
            return ComparedCell(mean)
        changes = paired_changes(self.history, reference, run, metric)
        if changes is None:
            why = why_not_paired(reference, run, metric)
            reason = why or "no question has both scores"
            return ComparedCell(mean, reason=reason)
        difference = changes.interval()
        word = ""
        if difference.low > 0.0 or difference.high < 0.0:
            is_less = difference.estimate < 0.0
            is_worse = is_less != self.policy.lower_is_better(metric)
            word = "worse" if is_worse else "better"
        return ComparedCell(mean, difference, word=word)

    def row(self, place: int) -> VersionRow:
        """The run at `place`, beside the one before it."""
        run = self.runs[place]
        before = run_before(self.runs, place)
        changes = {}
        if before is not None:
            for metric in self.metrics:
                paired = paired_changes(self.history, before, run, metric)
                if paired is not None:
                    changes[metric] = float(paired.values.mean())
        below = [
            loss.metric
            for loss in run.below
            if loss.slice is None and loss.until is None
        ]
        is_commit = _COMMIT.fullmatch(run.commit or "") is not None
        texts = [
            mark.text
            for mark in self.marks[place]
            if mark.kind not in ("release", "system")
        ]
        return VersionRow(
            run=run,
            is_commit=is_commit,
            marks=texts,
            changes=changes,
            below=below,
        )

    def _point(self, place: int, metric: str) -> Point:
        run = self.runs[place]
        is_break = any(
            mark.kind in _BREAKS and mark.metric in (None, metric)
            for mark in self.marks[place]
        )
        mean = mean_of(run, metric)
        point = _point_of(run, mean, score(mean, 3))
        return replace(point, starts=is_break)


def _point_of(run: RunLine, value: float | None, shown: str) -> Point:
    commit = run_name(run)
    label = f"{commit}: {shown} ({run.verdict})"
    return Point(run.time, value, run.verdict, clip(label, 80))
