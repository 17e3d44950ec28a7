"""The history as a page: trends of the metrics and of production, and the runs.

The page is static: no script, nothing from a network, and everything in it is escaped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, dollars, score, seconds
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.history.column import commit_of
from ragstone.history.file import History
from ragstone.history.lines import RunLine
from ragstone.history.trend import Mark, marks
from ragstone.metrics.registry import metric_title
from ragstone.report.escape import clip, url
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.tools.history_page.charts import HEIGHT, WIDTH, Chart, Point, chart_of
from ragstone.tools.history_page.versions import mean_changes, run_before
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


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A run of the table."""

    run: RunLine
    is_commit: bool
    """Whether its commit can be linked to."""
    marks: Sequence[str]
    changes: Mapping[str, float]
    """By metric, the change of its mean from the run before, on the questions of
    both."""
    below: Sequence[str]
    """The metrics that were below the level of the branch."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """What the page shows."""

    count: int
    notes: Sequence[str]
    """Sentences for its top."""
    metrics: Sequence[str]
    charts: Sequence[Chart]
    production: Sequence[Chart]
    rows: Sequence[VersionRow]
    repository: str | None
    """An address for links."""


def history_page(
    history: History,
    policy: Policy,
    *,
    repository: str | None = None,
    notes: Sequence[str] = (),
) -> HistoryPage:
    """The page of `history`.

    `repository` is its address on GitHub, for links. Thresholds are those of `policy`:
    the history doesn't have the ones that were in force then.
    """
    runs = [run for run in history.runs if run.window is None]
    metrics = list(
        dict.fromkeys(name for run in reversed(runs) for name in run.metrics)
    )
    notes = [*notes]
    if len(runs) > MAX_ROWS:
        notes.append(
            f"The table shows the newest {MAX_ROWS} of {counted(len(runs), 'run')}."
        )
    if len(metrics) > MAX_METRICS:
        notes.append(
            f"The page shows {MAX_METRICS} of {counted(len(metrics), 'metric')}, those of the newest runs."
        )
    builder = _PageBuilder(history, runs, policy, metrics[:MAX_METRICS])
    places = range(len(runs))
    return HistoryPage(
        count=len(runs),
        notes=notes,
        metrics=builder.metrics,
        charts=list(filter(None, builder.charts())),
        production=list(filter(None, window_charts(history.windows[-MAX_POINTS:]))),
        rows=[builder.row(place) for place in places[: -MAX_ROWS - 1 : -1]],
        repository=url(repository),
    )


def render_history(page: HistoryPage) -> str:
    """The page as HTML, which its security policy allows no script and no request."""
    return render_page(
        "history.html.j2",
        package=_PACKAGE,
        styles=(read_template("history.css", _PACKAGE),),
        title="RAG quality history",
        page=page,
        width=WIDTH,
        height=HEIGHT,
        metric_title=metric_title,
    )


def window_charts(windows: Sequence[RunLine]) -> Iterator[Chart | None]:
    """A chart for each figure of production, and each metric of its samples."""
    for name in dict.fromkeys(name for line in windows for name in line.figures):
        points = []
        for line in windows:
            value = line.figures[name].value if name in line.figures else None
            is_alert = line.window is not None and name in line.window.alerts
            word = "fail" if is_alert else "pass"
            points.append(Point(line.time, value, word, show_figure(name, value)))
        title = figure_title(name).capitalize()
        yield chart_of(title, points, partial(show_figure, name))


class _PageBuilder:
    """The parts of the page of one history, of which `runs` are no windows of
    production."""

    def __init__(
        self,
        history: History,
        runs: Sequence[RunLine],
        policy: Policy,
        metrics: Sequence[str],
    ) -> None:
        self.history = history
        self.runs = runs
        self.policy = policy
        self.metrics = metrics
        self.marks: dict[int, list[Mark]] = defaultdict(list)
        for mark in marks(runs):
            self.marks[mark.place].append(mark)

    def charts(self) -> Iterator[Chart | None]:
        """A chart for each metric, and those of latency and cost."""
        floors = self._floors()
        recent = range(len(self.runs))[-MAX_POINTS:]
        for metric in self.metrics:
            yield chart_of(
                metric_title(metric),
                [self._point(place, metric) for place in recent],
                score,
                limit=floors.get(metric),
                min_span=_MIN_SCORE_SPAN,
            )
        latencies, costs = [], []
        for run in self.runs[-MAX_POINTS:]:
            latencies.append(
                _point_of(run, run.latency_p50_s, seconds(run.latency_p50_s))
            )
            costs.append(_point_of(run, run.cost_usd, dollars(run.cost_usd)))
        yield chart_of("Latency of the system (median)", latencies, seconds)
        yield chart_of("Cost of judging", costs, dollars)

    def row(self, place: int) -> VersionRow:
        """The run at `place`, beside the one before it."""
        run = self.runs[place]
        before = run_before(self.runs, place)
        changes: dict[str, float] = {}
        if before is not None:
            changes = mean_changes(self.history, before, run, self.metrics)
        return VersionRow(
            run=run,
            is_commit=_COMMIT.fullmatch(run.commit or "") is not None,
            marks=[
                mark.text
                for mark in self.marks[place]
                if mark.kind not in ("release", "system")
            ],
            changes=changes,
            below=[
                loss.metric
                for loss in run.below
                if loss.slice is None and loss.until is None
            ],
        )

    def _point(self, place: int, metric: str) -> Point:
        run = self.runs[place]
        part = run.metrics.get(metric)
        is_break = any(
            mark.kind in _BREAKS and mark.metric in (None, metric)
            for mark in self.marks[place]
        )
        if part is None:
            return _point_of(run, None, "", starts=is_break)
        return _point_of(
            run,
            part.mean,
            score(part.mean, 3),
            interval=(part.low, part.high),
            starts=is_break,
        )

    def _floors(self) -> dict[str, float]:
        """The floor or ceiling of each metric over all samples."""
        scores = {metric: MetricScores({"": 0.0}) for metric in self.metrics}
        outline = RunScores("", scores, {"": SampleFacts()})
        floors: dict[str, float] = {}
        for rule in resolve_rules(self.policy, outline).rules:
            if rule.min is not None and not rule.slice:
                floors[rule.metric] = rule.direction.shown(rule.min)
        return floors


def _point_of(
    run: RunLine,
    value: float | None,
    shown: str,
    interval: tuple[float, float] | None = None,
    starts: bool = False,
) -> Point:
    label = clip(f"{commit_of(run)}: {shown} ({run.verdict})", 80)
    return Point(run.time, value, run.verdict, label, interval, starts)
