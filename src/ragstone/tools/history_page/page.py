"""The history as a page: trends of the metrics, versions one by one, and chosen versions side by side.

The page is static: no script, nothing from a network, and everything in it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, dollars, score, seconds
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.history.column import commit_of, since
from ragstone.history.file import History
from ragstone.history.level import looks_before, past_of
from ragstone.history.lines import BelowPart, RunLine
from ragstone.history.trend import Mark, marks
from ragstone.metrics.registry import metric_title
from ragstone.report.escape import clip, url
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.stats.estimate import Estimate
from ragstone.tools.history_page.charts import HEIGHT, WIDTH, Chart, Line, Point, Span, draw_chart
from ragstone.tools.history_page.versions import MIN_MOVE, PairedScores, paired_scores, run_before, why_not_paired

MAX_RUNS = 500
"""Runs in the table of a page, the newest."""

MAX_POINTS = 100
"""Runs in a chart, the newest."""

MAX_METRICS = 20
"""Metrics in a page, those of the newest runs."""

MAX_QUESTIONS = 20
"""Changed questions that are listed for a run, those that moved furthest; of compared versions, five times as many."""

_PACKAGE = "ragstone.tools.history_page"
_MIN_SCORE_SPAN = 0.1
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_BREAKS = ("judge", "golden", "metric", "part")


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with the scores of one metric in several runs; None where a run has none."""

    code: str
    name: str
    metric: str
    scores: tuple[float | None, ...]
    is_worse: bool
    distance: float
    """How far its score moved at most from that of the first run."""


@dataclass(frozen=True, slots=True)
class MeanCell:
    """The mean of a metric in a run, and by how much it changed from the run before, on the questions of both."""

    mean: float | None
    change: float | None
    is_below: bool
    """Whether the metric is below the level of the branch."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A run beside the one before it."""

    time: str
    commit: str | None
    commit_link: str | None
    pull_request: int | None
    pull_request_link: str | None
    version: str
    verdict: str
    marks: tuple[str, ...]
    means: tuple[MeanCell, ...]
    before: str
    """What the run before is called."""
    n_worse: int
    n_better: int
    questions: tuple[QuestionRow, ...]
    n_changes: int


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """A metric of a version: its mean, and the difference to the first version or why there is none."""

    mean: str
    difference: Estimate | None
    reason: str | None
    word: str
    """``better`` or ``worse`` if the interval excludes 0."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    title: str
    cells: tuple[ComparedCell, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Versions side by side; the first is the one that the others are compared with."""

    versions: tuple[str, ...]
    rows: tuple[ComparedRow, ...]
    questions: tuple[QuestionRow, ...]
    n_changes: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """What the page shows. `notes` are sentences for its top."""

    count: int
    notes: tuple[str, ...]
    metrics: tuple[str, ...]
    charts: tuple[Chart, ...]
    rows: tuple[VersionRow, ...]
    comparison: Comparison | None


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

    `repository` is its address on GitHub, for links. Thresholds are those of `policy`: the history doesn't have the
    ones that were in force then.
    """
    metrics = tuple(dict.fromkeys(name for run in reversed(history.runs) for name in run.metrics))
    notes = [*notes]
    if len(history.runs) > MAX_RUNS:
        notes.append(f"The page shows the newest {MAX_RUNS} of {counted(len(history.runs), 'run')}.")
    if len(metrics) > MAX_METRICS:
        notes.append(f"The page shows {MAX_METRICS} of {counted(len(metrics), 'metric')}, those of the newest runs.")
    metrics = metrics[:MAX_METRICS]
    builder = _PageBuilder(history, policy, metrics, names, url(repository))
    return HistoryPage(
        count=len(history.runs),
        notes=tuple(notes),
        metrics=tuple(metric_title(metric) for metric in metrics),
        charts=builder.charts(),
        rows=builder.rows(),
        comparison=builder.comparison(versions) if versions else None,
    )


def render_history(page: HistoryPage) -> str:
    """The page as HTML, which its security policy allows no script and no request."""
    return render_page(
        "history.html.j2",
        package=_PACKAGE,
        styles=(read_template("report.css"), read_template("history.css", _PACKAGE)),
        title="RAG quality history",
        page=page,
        width=WIDTH,
        height=HEIGHT,
        min_move=MIN_MOVE,
    )


def name_of(run: RunLine) -> str:
    """What a run is called in a sentence: its release or its version of the system, and its commit or date."""
    named = run.release or run.system
    return commit_of(run) if named is None else f"{named} ({commit_of(run)})"


class _PageBuilder:
    """The parts of the page of one history."""

    def __init__(
        self,
        history: History,
        policy: Policy,
        metrics: Sequence[str],
        names: Mapping[str, str],
        repository: str | None,
    ) -> None:
        self.history = history
        self.policy = policy
        self.metrics = metrics
        self.names = names
        self.repository = repository
        self.places = {run.run: place for place, run in enumerate(history.runs)}
        self.marks: dict[int, list[Mark]] = {}
        for mark in marks(history.runs):
            self.marks.setdefault(mark.place, []).append(mark)

    def charts(self) -> tuple[Chart, ...]:
        """A chart for each metric, and those of latency and cost."""
        runs = self.history.runs
        if not runs:
            return ()
        floors = self._floors()
        charts = [self._metric_chart(metric, floors.get(metric)) for metric in self.metrics]
        charts.append(self._chart("Latency of the system (median)", [run.latency_p50_s for run in runs], seconds))
        charts.append(self._chart("Cost of judging", [run.cost_usd for run in runs], dollars))
        return tuple(chart for chart in charts if chart is not None)

    def rows(self) -> tuple[VersionRow, ...]:
        """The newest runs, the newest first."""
        newest_first = range(len(self.history.runs) - 1, -1, -1)
        return tuple(self._row(place) for place in newest_first[:MAX_RUNS])

    def comparison(self, versions: Sequence[RunLine]) -> Comparison:
        """`versions` beside the first of them."""
        measured = [metric for metric in self.metrics if any(metric in run.metrics for run in versions)]
        rows = [
            ComparedRow(metric_title(metric), tuple(self._compared(versions[0], run, metric) for run in versions))
            for metric in measured
        ]
        for title, texts in (
            ("Latency (median)", [seconds(run.latency_p50_s) for run in versions]),
            ("Cost of judging", [dollars(run.cost_usd) for run in versions]),
        ):
            rows.append(ComparedRow(title, tuple(ComparedCell(text, None, None, "") for text in texts)))
        questions = self._changed_questions([self._pairs(versions[0], run) for run in versions[1:]])
        shown = questions[: 5 * MAX_QUESTIONS]
        return Comparison(tuple(name_of(run) for run in versions), tuple(rows), tuple(shown), len(questions))

    def _compared(self, reference: RunLine, run: RunLine, metric: str) -> ComparedCell:
        part = run.metrics.get(metric)
        mean = score(None if part is None else part.mean, 3)
        if run is reference or part is None:
            return ComparedCell(mean, None, None, "")
        paired = paired_scores(self.history, reference, run, metric)
        if paired is None:
            reason = why_not_paired(reference, run, metric) or "no question has both scores"
            return ComparedCell(mean, None, reason, "")
        difference = paired.interval()
        word = ""
        if difference.low > 0.0 or difference.high < 0.0:
            word = "worse" if self._is_worse(metric, difference.estimate) else "better"
        return ComparedCell(mean, difference, None, word)

    def _pairs(self, before: RunLine | None, run: RunLine) -> dict[str, PairedScores]:
        """The scores that compare in two runs, by metric."""
        if before is None:
            return {}
        paired = {metric: paired_scores(self.history, before, run, metric) for metric in self.metrics}
        return {metric: scores for metric, scores in paired.items() if scores is not None}

    def _changed_questions(self, comparisons: Sequence[Mapping[str, PairedScores]]) -> list[QuestionRow]:
        """The questions whose scores moved in one of `comparisons` with the same run, the worst first."""
        rows = []
        for metric in self.metrics:
            scores: dict[str, list[float | None]] = {}
            for column, comparison in enumerate(comparisons, start=1):
                if metric not in comparison:
                    continue
                paired = comparison[metric]
                for code, before, after in zip(
                    paired.codes, paired.before.tolist(), paired.after.tolist(), strict=True
                ):
                    row = scores.setdefault(code, [before] + [None] * len(comparisons))
                    row[column] = after
            rows += [self._question(metric, code, values) for code, values in scores.items()]
        moved = [row for row in rows if row.distance >= MIN_MOVE]
        return sorted(moved, key=lambda row: (not row.is_worse, -row.distance))

    def _question(self, metric: str, code: str, scores: Sequence[float | None]) -> QuestionRow:
        first = scores[0] or 0.0
        changes = [score - first for score in scores[1:] if score is not None]
        furthest = max(changes, key=abs)
        return QuestionRow(
            code,
            self.names.get(code, code),
            metric_title(metric),
            tuple(scores),
            self._is_worse(metric, furthest),
            round(abs(furthest), 6),
        )

    def _is_worse(self, metric: str, change: float) -> bool:
        return (change < 0.0) != self.policy.lower_is_better(metric)

    def _row(self, place: int) -> VersionRow:
        run = self.history.runs[place]
        before = run_before(self.history, place)
        pairs = self._pairs(before, run)
        questions = self._changed_questions([pairs])
        worse = {row.code for row in questions if row.is_worse}
        return VersionRow(
            time=f"{run.time:%Y-%m-%d %H:%M}",
            commit=None if run.commit is None else clip(run.commit, 40)[:7],
            commit_link=self._link("commit", run.commit if _COMMIT.fullmatch(run.commit or "") else None),
            pull_request=run.pull_request,
            pull_request_link=self._link("pull", run.pull_request),
            version=", ".join(name for name in (run.release, run.system) if name is not None),
            verdict=run.verdict,
            marks=tuple(mark.text for mark in self.marks.get(place, []) if mark.kind not in ("release", "system")),
            means=tuple(self._mean(run, metric, pairs.get(metric)) for metric in self.metrics),
            before="" if before is None else name_of(before),
            n_worse=len(worse),
            n_better=len({row.code for row in questions} - worse),
            questions=tuple(questions[:MAX_QUESTIONS]),
            n_changes=len(questions),
        )

    def _mean(self, run: RunLine, metric: str, paired: PairedScores | None) -> MeanCell:
        part = run.metrics.get(metric)
        return MeanCell(
            mean=None if part is None else part.mean,
            change=None if paired is None else float(paired.changes.mean()),
            is_below=any((loss.metric, loss.slice, loss.until) == (metric, None, None) for loss in run.below),
        )

    def _link(self, kind: str, name: str | int | None) -> str | None:
        if self.repository is None or name is None:
            return None
        return f"{self.repository.rstrip('/')}/{kind}/{name}"

    def _metric_chart(self, metric: str, floor: float | None) -> Chart | None:
        first = max(0, len(self.history.runs) - MAX_POINTS)
        lines = []
        level = self._level(metric)
        if level is not None:
            start, mean = level
            lines.append(Line(mean, "level", f"level {score(mean, 3)}", max(0, start - first)))
        if floor is not None:
            kind = "max" if self.policy.lower_is_better(metric) else "min"
            lines.append(Line(floor, "limit", f"{kind} {floor:g}"))
        points = []
        for place, run in enumerate(self.history.runs[first:], start=first):
            part = run.metrics.get(metric)
            points.append(
                Point(
                    value=None if part is None else part.mean,
                    low=None if part is None else part.low,
                    high=None if part is None else part.high,
                    word=run.verdict,
                    label=self._label(run, None if part is None else score(part.mean, 3)),
                    starts=self._is_break(place, metric),
                )
            )
        return draw_chart(
            metric_title(metric),
            points,
            show=score,
            names=self._outer_dates(),
            lines=lines,
            spans=self._losses(metric, first),
            min_span=_MIN_SCORE_SPAN,
        )

    def _chart(self, title: str, values: Sequence[float | None], show: Callable[[float | None], str]) -> Chart | None:
        runs = self.history.runs[-MAX_POINTS:]
        points = [
            Point(value, None, None, run.verdict, self._label(run, None if value is None else show(value)))
            for run, value in zip(runs, values[-MAX_POINTS:], strict=True)
        ]
        return draw_chart(title, points, show=show, names=self._outer_dates())

    def _outer_dates(self) -> tuple[str, str]:
        runs = self.history.runs[-MAX_POINTS:]
        return f"{runs[0].time:%Y-%m-%d}", f"{runs[-1].time:%Y-%m-%d}"

    def _label(self, run: RunLine, value: str | None) -> str:
        return f"{run.time:%Y-%m-%d %H:%M}, {name_of(run)}: {value} ({run.verdict})"

    def _is_break(self, place: int, metric: str) -> bool:
        """Whether the scores of `metric` in a run don't compare with those of the run before."""
        return any(mark.kind in _BREAKS and mark.metric in (None, metric) for mark in self.marks.get(place, []))

    def _level(self, metric: str) -> tuple[int, float] | None:
        """Since which run the level of `metric` is, by its place, and its mean."""
        newest = next((run for run in reversed(self.history.gated) if metric in run.scores), None)
        if newest is None:
            return None
        looks = past_of(looks_before(self.history, newest), newest, metric).level(main=True)
        means = [look.line.metrics[metric].mean for look in looks if metric in look.line.metrics]
        return (self.places[looks[0].line.run], float(np.mean(means))) if means else None

    def _losses(self, metric: str, first: int) -> list[Span]:
        """The runs in which `metric` was below its level, from the place `first` on."""
        losses: dict[tuple[str | None, str], tuple[int, int, BelowPart]] = {}
        for place, run in enumerate(self.history.runs):
            for part in run.below:
                if part.metric != metric:
                    continue
                start = self.places.get(part.since, place)
                end = place if part.until is None else self.places.get(part.until, place) - 1
                losses[part.slice, part.since] = (start, end, part)
        spans = []
        for start, end, part in losses.values():
            if end < max(start, first):
                continue
            where = "" if part.slice is None else f" on '{part.slice}'"
            label = f"{score(part.loss)} below its level{where} {since(part.commit, part.merges)}"
            spans.append(Span(max(start - first, 0), end - first, label))
        return spans

    def _floors(self) -> dict[str, float]:
        """The floor or ceiling of each metric over all samples."""
        outline = RunScores("", {metric: MetricScores({"": 0.0}) for metric in self.metrics}, {"": SampleFacts()})
        return {
            rule.metric: rule.direction.shown(rule.min)
            for rule in resolve_rules(self.policy, outline).rules
            if rule.min is not None and rule.slice is None
        }
