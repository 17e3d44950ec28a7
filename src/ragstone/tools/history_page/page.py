"""The history as a page: trends of the metrics and of production, versions one by one, and chosen ones side by side.

The page is static: no script, nothing from a network, and everything in it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ragstone.stats.estimate import Estimate
from ragstone.tools.history_page.charts import HEIGHT, WIDTH, Chart, Point, chart_of
from ragstone.tools.history_page.versions import MIN_MOVE, paired_scores, run_before, why_not_paired
from ragstone.tools.monitor.window import figure_title, show_figure

MAX_ROWS = 100
"""Runs in the table of a page, the newest."""

MAX_POINTS = 60
"""Runs or windows in a chart, the newest."""

MAX_METRICS = 20
"""Metrics in a page, those of the newest runs."""

MAX_QUESTIONS = 20
"""Changed questions that are listed for compared versions, those that moved furthest."""

_PACKAGE = "ragstone.tools.history_page"
_MIN_SCORE_SPAN = 0.1
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_BREAKS = ("judge", "golden", "metric", "part")


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with the scores of one metric in several runs; None where a run has none.

    `distance` is how far its score moved at most from that of the first run.
    """

    name: str
    metric: str
    scores: tuple[float | None, ...]
    is_worse: bool
    distance: float


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A run of the table, with the changes of its means from the run before, on the questions of both.

    `is_commit`: its commit can be linked to. `below` are the metrics that were below the level of the branch.
    """

    run: RunLine
    is_commit: bool
    marks: Sequence[str]
    changes: Mapping[str, float]
    below: Sequence[str]


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """A metric of a version: its mean, and the difference to the first version or why there is none.

    `word` is ``better`` or ``worse`` if the interval excludes 0.
    """

    mean: str
    difference: Estimate | None = None
    reason: str | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Versions side by side, metric by metric; the first is the one that the others are compared with."""

    versions: tuple[str, ...]
    rows: Mapping[str, Sequence[ComparedCell]]
    questions: Sequence[QuestionRow]
    n_changes: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """What the page shows. `notes` are sentences for its top; `repository` is an address for links."""

    count: int
    notes: Sequence[str]
    metrics: Sequence[str]
    charts: Sequence[Chart]
    production: Sequence[Chart]
    rows: Sequence[VersionRow]
    comparison: Comparison | None
    repository: str | None


def history_page(
    history: History,
    policy: Policy,
    *,
    names: Mapping[str, str],
    versions: Sequence[RunLine] = (),
    repository: str | None = None,
    notes: Sequence[str] = (),
) -> HistoryPage:
    """The page of `history`. `names` has the questions by their code, and `versions` are to be compared.

    Without versions, the newest run is compared with the one before it. `repository` is its address on GitHub, for
    links. Thresholds are those of `policy`: the history doesn't have the ones that were in force then.
    """
    runs = tuple(run for run in history.runs if run.window is None)
    metrics = tuple(dict.fromkeys(name for run in reversed(runs) for name in run.metrics))
    notes = [*notes]
    if len(runs) > MAX_ROWS:
        notes.append(f"The table shows the newest {MAX_ROWS} of {counted(len(runs), 'run')}.")
    if len(metrics) > MAX_METRICS:
        notes.append(f"The page shows {MAX_METRICS} of {counted(len(metrics), 'metric')}, those of the newest runs.")
    builder = _PageBuilder(history, runs, policy, metrics[:MAX_METRICS], names)
    if not versions and len(runs) > 1:
        before = run_before(runs, len(runs) - 1)
        versions = [before or runs[-2], runs[-1]]
    return HistoryPage(
        count=len(runs),
        notes=notes,
        metrics=metrics[:MAX_METRICS],
        charts=[chart for chart in builder.charts() if chart is not None],
        production=[chart for chart in window_charts(history.windows[-MAX_POINTS:]) if chart is not None],
        rows=builder.rows(),
        comparison=builder.comparison(versions) if versions else None,
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
        min_move=MIN_MOVE,
        metric_title=metric_title,
    )


def name_of(run: RunLine) -> str:
    """What a run is called: its release, its version of the system, or its commit or date."""
    return run.release or run.system or commit_of(run)


def window_charts(windows: Sequence[RunLine]) -> Iterator[Chart | None]:
    """A chart for each figure of production, and each metric of its samples."""
    names = dict.fromkeys(name for line in windows for name in line.figures)
    for name in names:
        points = []
        for line in windows:
            value = line.figures[name].value if name in line.figures else None
            is_alert = line.window is not None and name in line.window.alerts
            label = f"{line.time:%Y-%m-%d %H:%M}: {show_figure(name, value)}"
            points.append(Point(value, "fail" if is_alert else "pass", label))
        yield chart_of(figure_title(name).capitalize(), points, partial(show_figure, name), _outer_dates(windows))


def _outer_dates(runs: Sequence[RunLine]) -> tuple[str, str]:
    return f"{runs[0].time:%Y-%m-%d}", f"{runs[-1].time:%Y-%m-%d}"


class _PageBuilder:
    """The parts of the page of one history, of which `runs` are no windows of production."""

    def __init__(
        self,
        history: History,
        runs: Sequence[RunLine],
        policy: Policy,
        metrics: Sequence[str],
        names: Mapping[str, str],
    ) -> None:
        self.history = history
        self.runs = runs
        self.policy = policy
        self.metrics = metrics
        self.names = names
        self.first = max(0, len(runs) - MAX_POINTS)
        self.marks: dict[int, list[Mark]] = {}
        for mark in marks(runs):
            self.marks.setdefault(mark.place, []).append(mark)

    def charts(self) -> Iterator[Chart | None]:
        """A chart for each metric, and those of latency and cost."""
        floors = self._floors()
        for metric in self.metrics:
            yield self._metric_chart(metric, floors.get(metric))
        recent = self.runs[self.first :]
        yield self._chart("Latency of the system (median)", [run.latency_p50_s for run in recent], seconds)
        yield self._chart("Cost of judging", [run.cost_usd for run in recent], dollars)

    def rows(self) -> list[VersionRow]:
        """The newest runs, the newest first."""
        newest_first = range(len(self.runs) - 1, -1, -1)
        return [self._row(place) for place in newest_first[:MAX_ROWS]]

    def comparison(self, versions: Sequence[RunLine]) -> Comparison:
        """`versions` beside the first of them."""
        rows = {}
        for metric in self.metrics:
            if any(metric in run.metrics for run in versions):
                rows[metric_title(metric)] = [self._compared(versions[0], run, metric) for run in versions]
        rows["Latency (median)"] = [ComparedCell(seconds(run.latency_p50_s)) for run in versions]
        questions = [row for metric in self.metrics for row in self._questions(metric, versions)]
        questions.sort(key=lambda row: (not row.is_worse, -row.distance))
        return Comparison(tuple(map(name_of, versions)), rows, questions[:MAX_QUESTIONS], len(questions))

    def _compared(self, reference: RunLine, run: RunLine, metric: str) -> ComparedCell:
        part = run.metrics.get(metric)
        mean = score(None if part is None else part.mean, 3)
        if run is reference or part is None:
            return ComparedCell(mean)
        paired = paired_scores(self.history, reference, run, metric)
        if paired is None:
            return ComparedCell(mean, reason=why_not_paired(reference, run, metric) or "no question has both scores")
        difference = paired.interval()
        word = ""
        if difference.low > 0.0 or difference.high < 0.0:
            word = "worse" if self._is_worse(metric, difference.estimate) else "better"
        return ComparedCell(mean, difference, word=word)

    def _questions(self, metric: str, versions: Sequence[RunLine]) -> Iterator[QuestionRow]:
        """The questions whose score of `metric` differs in one of `versions` from that in the first."""
        scores: dict[str, list[float | None]] = {}
        for column, run in enumerate(versions[1:], start=1):
            paired = paired_scores(self.history, versions[0], run, metric)
            if paired is None:
                continue
            for code, before, after in zip(paired.codes, paired.before, paired.after, strict=True):
                row = scores.setdefault(code, [float(before)] + [None] * (len(versions) - 1))
                row[column] = float(after)
        for code, row in scores.items():
            first = row[0] or 0.0
            furthest = max((value - first for value in row[1:] if value is not None), key=abs)
            if abs(furthest) >= MIN_MOVE - 1e-9:
                name = self.names.get(code, code)
                yield QuestionRow(
                    name, metric_title(metric), tuple(row), self._is_worse(metric, furthest), abs(furthest)
                )

    def _is_worse(self, metric: str, change: float) -> bool:
        return (change < 0.0) != self.policy.lower_is_better(metric)

    def _row(self, place: int) -> VersionRow:
        run = self.runs[place]
        before = run_before(self.runs, place)
        changes = {}
        for metric in self.metrics:
            paired = None if before is None else paired_scores(self.history, before, run, metric)
            if paired is not None:
                changes[metric] = float(paired.changes.mean())
        return VersionRow(
            run=run,
            is_commit=_COMMIT.fullmatch(run.commit or "") is not None,
            marks=[mark.text for mark in self.marks.get(place, []) if mark.kind not in ("release", "system")],
            changes=changes,
            below=[loss.metric for loss in run.below if loss.slice is None and loss.until is None],
        )

    def _metric_chart(self, metric: str, floor: float | None) -> Chart | None:
        points = []
        for place, run in enumerate(self.runs[self.first :], start=self.first):
            part = run.metrics.get(metric)
            value, interval = (None, None) if part is None else (part.mean, (part.low, part.high))
            is_break = any(mark.kind in _BREAKS and mark.metric in (None, metric) for mark in self.marks.get(place, []))
            points.append(Point(value, run.verdict, _label(run, score(value, 3)), interval, is_break))
        return chart_of(
            metric_title(metric),
            points,
            score,
            _outer_dates(self.runs[self.first :]),
            limit=floor,
            min_span=_MIN_SCORE_SPAN,
        )

    def _chart(self, title: str, values: Sequence[float | None], show: Callable[[float | None], str]) -> Chart | None:
        runs = self.runs[self.first :]
        points = [Point(value, run.verdict, _label(run, show(value))) for run, value in zip(runs, values, strict=True)]
        return chart_of(title, points, show, _outer_dates(runs)) if runs else None

    def _floors(self) -> dict[str, float]:
        """The floor or ceiling of each metric over all samples."""
        outline = RunScores("", {metric: MetricScores({"": 0.0}) for metric in self.metrics}, {"": SampleFacts()})
        rules = resolve_rules(self.policy, outline).rules
        return {
            rule.metric: rule.direction.shown(rule.min) for rule in rules if rule.min is not None and not rule.slice
        }


def _label(run: RunLine, value: str) -> str:
    return clip(f"{run.time:%Y-%m-%d %H:%M}, {commit_of(run)}: {value} ({run.verdict})", 100)
