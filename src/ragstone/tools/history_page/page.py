"""Renders the history as a page: trends of the metrics and of production, a table of
the versions, and some versions side by side.

The page has no script, loads nothing from a network, and escapes all texts.
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
from ragstone.report.escape import clip, safe_url
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
"""The table shows so many runs, the newest."""

MAX_POINTS = 60
"""A chart shows so many runs or windows, the newest."""

MAX_METRICS = 20
"""The page shows so many metrics, those of the newest runs first."""

_PACKAGE = "ragstone.tools.history_page"

_MIN_SCORE_SPAN = 0.1
"""The least difference from bottom to top of a chart of scores."""

_MAX_LABEL_CHARACTERS = 80
_COMMIT = re.compile(r"[0-9a-f]{7,64}")

_BREAKING_MARKS = ("judge", "golden", "metric", "part")
"""The kinds of marks after which scores can't be compared with those before."""

_IN_COLUMN = ("release", "system")
"""The kinds of marks that the table has in a column, and not below the run."""


class VersionRow(Struct, frozen=True):
    """A run in the table of versions."""

    run: RunLine
    is_commit: bool
    """Whether its commit can be linked to."""
    marks: Sequence[str]
    changes: Mapping[str, float]
    """By metric, how its mean changed from the run before, on the questions that both
    scored."""
    below: Sequence[str]
    """The metrics that were below the level of the branch."""


class ComparedCell(Struct, frozen=True):
    """A metric of a version, compared with the first version."""

    mean: str
    difference: Estimate | None = None
    reason: str | None = None
    """Why there is no difference, if the version should have one."""
    word: str = ""
    """``better`` or ``worse`` if the interval of the difference excludes 0."""


class HistoryPage(Struct, frozen=True):
    """What the page shows."""

    run_count: int
    notes: Sequence[str]
    """Sentences for the top of the page."""
    metrics: Sequence[str]
    charts: Sequence[Chart]
    production: Sequence[Chart]
    """The charts of the windows of `ragstone monitor`."""
    rows: Sequence[VersionRow]
    versions: Sequence[str]
    """The names of the compared versions."""
    comparison: Mapping[str, Sequence[ComparedCell]]
    """A cell for each of `versions`, by the title of what is compared."""
    repository: str | None
    """The address of the repository on GitHub, for links."""


def history_page(
    history: History,
    policy: Policy,
    *,
    versions: Sequence[RunLine] = (),
    repository: str | None = None,
    notes: Sequence[str] = (),
) -> HistoryPage:
    """Collect what the page of `history` shows.

    `versions` are compared with the first of them; without any, the newest run is
    compared with the one before it. `repository` is its address on GitHub. The
    thresholds in the charts are those of `policy`, since the history doesn't have
    earlier ones.
    """
    runs = tuple(run for run in history.runs if run.window is None)
    all_metrics: dict[str, None] = {}
    for run in reversed(runs):
        all_metrics |= dict.fromkeys(run.metrics)
    metrics = tuple(all_metrics)
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
    marks_of_runs = []
    before = None
    for run in runs:
        marks_of_runs.append(list(marks(run, before)))
        before = run
    builder = _PageBuilder(history, runs, policy, metrics[:MAX_METRICS], marks_of_runs)
    newest_index = len(runs) - 1
    previous = run_before(runs, newest_index)
    if not versions and previous is not None:
        versions = [previous, runs[newest_index]]
    production = window_charts(history.windows[-MAX_POINTS:])
    newest_first = range(newest_index, -1, -1)
    return HistoryPage(
        run_count=len(runs),
        notes=notes,
        metrics=builder.metrics,
        charts=list(filter(None, builder.charts())),
        production=list(filter(None, production)),
        rows=list(map(builder.row, newest_first[:MAX_ROWS])),
        versions=[run.release or run.system or run_name(run) for run in versions],
        comparison=builder.comparison(versions) if versions else {},
        repository=safe_url(repository),
    )


def render_history(page: HistoryPage) -> str:
    """Render the page as HTML. Its content security policy allows no script and no
    request."""
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
    """Yield a chart for each figure of production and each metric of its samples, or
    None for one without a value."""
    names: dict[str, None] = {}
    for line in windows:
        names |= dict.fromkeys(line.figures)
    for name in names:
        points = []
        for line in windows:
            part = line.figures.get(name)
            value = None if part is None else part.value
            has_alert = line.window is not None and name in line.window.alerts
            status = "fail" if has_alert else "pass"
            label = show_figure(name, value)
            points.append(Point(line.time, value, status, label))
        title = figure_title(name).capitalize()
        show = partial(show_figure, name)
        yield chart_of(title, points, show)


class _PageBuilder(Struct):
    """Builds the parts of the page of one history."""

    history: History
    runs: Sequence[RunLine]
    """The runs that are no windows of production, the oldest first."""
    policy: Policy
    metrics: Sequence[str]
    """The metrics that the page shows."""
    marks: Sequence[Sequence[Mark]]
    """The marks of each of `runs`."""

    def charts(self) -> Iterator[Chart | None]:
        """Yield a chart for each metric, for latency and for cost, or None for one
        without a value."""
        limits = self._limits()
        newest_indices = range(len(self.runs))[-MAX_POINTS:]
        for metric in self.metrics:
            yield chart_of(
                title=metric_title(metric),
                points=[self._point(index, metric) for index in newest_indices],
                show=score,
                limit=limits.get(metric),
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

    def _limits(self) -> dict[str, float]:
        """By metric, the floor or ceiling of its mean over all samples."""
        # Rules are resolved for the metrics of a run: this one has one sample.
        run = RunScores(
            "",
            {metric: MetricScores({"": 0.0}) for metric in self.metrics},
            {"": SampleFacts()},
        )
        return {
            rule.metric: rule.direction.reported(rule.min)
            for rule in resolve_rules(self.policy, run)
            if rule.min is not None and not rule.slice
        }

    def comparison(
        self, versions: Sequence[RunLine]
    ) -> dict[str, Sequence[ComparedCell]]:
        """Compare each of `versions` with the first: a cell for each, by the title of
        what is compared."""
        rows: dict[str, Sequence[ComparedCell]] = {}
        for metric in self.metrics:
            if any(metric in run.metrics for run in versions):
                rows[metric_title(metric)] = [
                    self._compare(versions[0], run, metric) for run in versions
                ]
        rows["Latency (median)"] = [
            ComparedCell(seconds(run.latency_p50_s)) for run in versions
        ]
        return rows

    def _compare(self, reference: RunLine, run: RunLine, metric: str) -> ComparedCell:
        """Compare a metric of `run` with that of `reference`."""
        mean = score(mean_of(run, metric), 3)
        if run is reference or metric not in run.metrics:
            return ComparedCell(mean)
        changes = paired_changes(self.history, reference, run, metric)
        if changes is None:
            reason = why_not_paired(reference, run, metric)
            return ComparedCell(mean, reason=reason or "no question has both scores")
        difference = changes.interval()
        word = ""
        if difference.low > 0.0 or difference.high < 0.0:
            is_lower = difference.estimate < 0.0
            is_worse = is_lower != self.policy.lower_is_better(metric)
            word = "worse" if is_worse else "better"
        return ComparedCell(mean, difference, word=word)

    def row(self, index: int) -> VersionRow:
        """The row of the run at `index`."""
        run = self.runs[index]
        before = run_before(self.runs, index)
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
        return VersionRow(
            run=run,
            is_commit=_COMMIT.fullmatch(run.commit or "") is not None,
            marks=[
                mark.text for mark in self.marks[index] if mark.kind not in _IN_COLUMN
            ],
            changes=changes,
            below=below,
        )

    def _point(self, index: int, metric: str) -> Point:
        """The point of the run at `index` in the chart of `metric`."""
        run = self.runs[index]
        is_after_gap = any(
            mark.kind in _BREAKING_MARKS and mark.metric in (None, metric)
            for mark in self.marks[index]
        )
        mean = mean_of(run, metric)
        point = _point_of(run, mean, score(mean, 3))
        return replace(point, is_after_gap=is_after_gap)


def _point_of(run: RunLine, value: float | None, shown_value: str) -> Point:
    """The point of a run in a chart. `shown_value` is `value` with its unit."""
    commit = run_name(run)
    label = f"{commit}: {shown_value} ({run.verdict})"
    return Point(run.time, value, run.verdict, clip(label, _MAX_LABEL_CHARACTERS))
