"""Markdown for a comment or a job summary, rendered with less and less detail until it fits."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from ragstone import formatting
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.trend import Trend
from ragstone.printable import clean, without_commands
from ragstone.report import escape, wording
from ragstone.report.parts import TITLE, FailurePart, MetricRow, ReportView, SamplePart
from ragstone.report.rows import check_reason, marked_title, severity
from ragstone.report.sandbox import SafeText, plain
from ragstone.report.summary import Example, summary_of
from ragstone.report.templates import OURS, REPORT, TemplateExhaustedError, Templates, render_template
from ragstone.report.trend import Scale, sparkline

ICONS = {"pass": "✅", "fail": "❌", "warn": "⚠️", "inconclusive": "🟡", "error": "🚫", "not gated": "▫️"}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a report shows. Counts are upper bounds, `text` and `answer` are lengths in characters.

    `room` is the place in `summary.ROOMS` of the most that is shown above the first fold.
    """

    rows: int
    worst: int
    statements: int
    text: int
    answer: int
    groups: int
    ids: int
    checks: int
    notes: int = 20
    warnings: int = 20
    about: bool = True
    room: int = 0

    def clip(self, text: str) -> str:
        return escape.clip(text, self.text)

    def line(self, text: str) -> str:
        """A sentence of the report's own, which is cut less."""
        return escape.clip(text, max(self.text, 200))

    def quoted(self, text: str | None) -> str:
        """An answer or a reference; nothing at a level without them."""
        return escape.clip(text or "", self.answer) if self.answer else ""


LEVELS = (
    Detail(200, 3, 5, 600, 400, 10, 10, 60),
    Detail(120, 3, 4, 400, 400, 10, 10, 60),
    Detail(60, 3, 3, 240, 400, 6, 6, 30),
    Detail(30, 3, 2, 160, 0, 4, 3, 0, room=4),
    Detail(12, 3, 1, 120, 0, 2, 2, 0, notes=3, warnings=6, room=5),
    Detail(6, 1, 0, 80, 0, 1, 1, 0, notes=1, warnings=3, about=False, room=8),
    Detail(0, 0, 0, 80, 0, 0, 0, 0, notes=0, warnings=2, about=False, room=9),
)


_MAX_REASON = 300
"""Characters of a reason in the table of all checks; the HTML report has all."""

_STEP_WHEN_EXHAUSTED = 3
"""From the first level to the last in two steps, so that a runaway template is stopped soon."""


def length(text: str) -> int:
    """Length by the strictest measure: in UTF-16 units, where an emoji counts as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_markdown(view: ReportView, *, limit: int, templates: Templates | None) -> str:
    """The report in at most `limit` characters: the most detailed of LEVELS that fits.

    `templates` are the user's. If they do not fit at any level, the built-in one is used. The line with the verdict
    comes before the template's output, so that no template can omit or replace it.
    Raises ConfigError for an invalid template, ValueError if not even the verdict fits into `limit`.
    """
    names = [REPORT, OURS] if templates is not None else [OURS]
    first = verdict_line(view)
    for name in names:
        level = 0
        while level < len(LEVELS):
            text = _rendered(view, LEVELS[level], name, templates, last=level == len(LEVELS) - 1)
            if text is not None and length(whole := without_commands(f"{first}\n\n{text}")) <= limit:
                return whole
            level += 1 if text is not None else _STEP_WHEN_EXHAUSTED
    raise ValueError(f"a limit of {limit} characters is too small for a verdict")


def verdict_line(view: ReportView) -> str:
    """Line one, as a heading."""
    named = "" if view.title == TITLE else f"{view.title}: "
    said = escape.clip(f"{named}{view.headline}", 300)
    return f"## {ICONS[str(view.status)]} {escape.markdown_inline(said)}"


def _rendered(view: ReportView, detail: Detail, name: str, templates: Templates | None, *, last: bool) -> str | None:
    """The report at one level; None if it exceeded the work budget, which long text can cause too."""
    try:
        return render_template(name, {"report": context(view, detail)}, filters(detail), templates)
    except TemplateExhaustedError:
        if last:
            raise
        return None


def filters(detail: Detail) -> dict[str, Callable[..., SafeText | str]]:
    """Filters for templates. All except `clip` return text that is printed without escaping."""
    return {
        "clip": lambda text, size=detail.text: escape.clip(plain(text), int(size)),
        "code": lambda text: SafeText(escape.markdown_code(plain(text))),
        "fence": lambda text: SafeText(escape.markdown_fence(wrapped(plain(text)))),
        "lines": lambda text: SafeText(escape.markdown_fence(plain(text))),
        "link": lambda text, url: SafeText(escape.markdown_link(plain(text), None if url is None else plain(url))),
    }


def wrapped(text: str, width: int = 100) -> str:
    """`text` with long lines wrapped: a fence doesn't wrap them."""
    lines = clean(text).split("\n")
    return "\n".join(textwrap.fill(line, width, replace_whitespace=False) for line in lines)


def context(view: ReportView, detail: Detail) -> dict[str, object]:
    """The view as plain data for a template: raw strings, numbers, lists and mappings, no callables."""
    shown, left = _chosen(view.metrics, detail.rows)
    scale = Scale.for_checks(row.deciding for row in shown if row.deciding)
    worst = [_worst(sample, detail) for sample in view.worst[: detail.worst]]
    lead, more = wording.first_sentence(wording.sentence(view.reason))
    first = summary_of(view, detail.room)
    checks = sorted(view.checks, key=lambda check: check.status is Status.PASS)
    counts = Counter(wording.status_word(check.status, check.action) for check in view.checks)
    return {
        "title": view.title,
        "status": str(view.status),
        "icon": ICONS[str(view.status)],
        "headline": str(view.headline),
        "findings": list(first.findings),
        "where": {"look": first.look, "action": first.action} if first.look or first.action else None,
        "since": first.since,
        "changed": [{**asdict(row), "icon": ICONS[row.word]} for row in first.rows],
        "held": first.held,
        "usage": first.usage,
        "example": _example(first.example, detail) if first.example is not None else None,
        "reason": detail.line(lead),
        "more": detail.line(more),
        "passed": view.passed,
        "attribution": _attribution(view, detail),
        "causes": wording.causes(view.explained),
        "actions": [detail.line(one) for one in wording.cause_actions(view.explained)],
        "oracle_title": wording.ORACLE_TITLE,
        "oracle": [detail.line(line) for line in wording.oracle_lines(view.oracle)],
        "rows": [_row(row, scale) for row in shown],
        "lower_is_better": any(row.lower_is_better for row in shown),
        "rows_left": len(left),
        "rows_left_passing": sum(row.status is Status.PASS for row in left),
        "checks": [
            {
                "title": row.title,
                "found": row.found,
                "wanted": row.wanted,
                "icon": _icon(row.check.status, row.check.action),
                "state": wording.status_word(row.check.status, row.check.action),
                "reason": detail.clip(check_reason(row.check)),
            }
            for row in [row for row in view.check_rows if row.check.status is not Status.PASS][: detail.rows]
        ],
        "passing": [f"{row.title} {row.found}" for row in view.check_rows if row.check.status is Status.PASS],
        "trends": [_trend(trend) for trend in view.trends[: detail.rows]] if detail.about else [],
        "worst_heading": wording.worst_heading(view.worst),
        "worst": worst,
        "worst_total": formatting.counted(len(view.worst) + view.worst_left, "sample"),
        "worst_left": len(view.worst) + view.worst_left - len(worst),
        "failures": [_failure(group, len(view.sample_metrics), detail) for group in view.failures[: detail.groups]],
        "failures_left": max(0, len(view.failures) - detail.groups),
        "failed_samples": len({sample.id for group in view.failures for sample in group.samples}),
        "comparison": _comparison(view, detail),
        "judge": None
        if view.judge is None
        else {
            **asdict(view.judge),
            "grades": [[wording.metric_title(name), grade] for name, grade in view.judge.grades],
        },
        "cost": _cost(view),
        "warnings": list(first.warnings),
        "folded_warnings": [detail.line(one) for one in first.folded[: detail.warnings]],
        "folded_warnings_left": max(0, len(first.folded) - detail.warnings),
        "resolution": None if view.resolution is None else detail.line(view.resolution),
        "warnings_left": first.warnings_left,
        "notes": [detail.clip(wording.sentence(note)) for note in view.notes[: detail.notes]],
        "all_checks": [_check(check, detail) for check in checks[: detail.checks]],
        "all_checks_left": max(0, len(checks) - detail.checks) if detail.checks else 0,
        "counts": [{"state": word, "icon": ICONS[word], "count": counts[word]} for word in ICONS if word in counts],
        "run": _run(view) if detail.about else None,
        "reproduce": "\n".join(view.reproduce) if detail.about else "",
        "accept": "\n".join(view.accept) if detail.about else "",
        "accepts_edit": any(check.kind is CheckKind.GOLDEN_SET for check in view.checks),
        "run_url": view.run_url,
        "artifact_url": view.artifact_url,
    }


def _example(found: Example, detail: Detail) -> dict[str, object]:
    return {
        **_worst(found.sample, detail),
        "id": escape.clip(found.sample.id, 60),
        "place": None if found.sample.place is None else escape.clip(str(found.sample.place), 60),
        "question": found.question,
        "pieces": [asdict(piece) for piece in found.pieces],
        "compared": found.compared,
        "missing": [found.missing] if found.missing else [],
        "unsupported": [{"text": found.unsupported}] if found.unsupported else [],
    }


def _trend(trend: Trend) -> dict[str, object]:
    return {
        "title": wording.metric_title(trend.metric),
        "picture": sparkline(trend),
        "runs": len(trend.points),
        "since": f"{trend.points[0].time:%Y-%m-%d}",
        "first": formatting.score(trend.values[0]),
        "last": formatting.score(trend.values[-1]),
    }


def _chosen(rows: Sequence[MetricRow], most: int) -> tuple[list[MetricRow], list[MetricRow]]:
    """The rows to show, all or the most important, and the rest."""
    if len(rows) <= most:
        return list(rows), []
    ranked = sorted(rows, key=lambda row: (severity(row.status, row.action), row.slice is not None))
    return ranked[:most], ranked[most:]


def _icon(status: Status | None, action: Action | None) -> str:
    return ICONS[wording.status_word(status, action)]


def _attribution(view: ReportView, detail: Detail) -> dict[str, object] | None:
    found = view.attribution
    if found is None:
        return None
    return {"side": str(found.side), "look": found.look, "reason": detail.line(wording.sentence(found.reason))}


def _row(row: MetricRow, scale: Scale) -> dict[str, object]:
    return {
        "metric": row.metric,
        "title": row.title,
        "slice": row.slice,
        **asdict(wording.figures(row)),
        "picture": scale.draw(row.deciding) if row.deciding else "",
        "asks": str(row.deciding.kind) if row.deciding else "",
        "threshold": " · ".join(wording.thresholds(row)),
        "status": wording.status_word(row.status, row.action),
        "icon": _icon(row.status, row.action),
        "state": row.state,
        "n": row.n,
        "not_applicable": row.not_applicable,
        "failed": row.failed,
        "grade": row.offline_reliability,
    }


def _worst(sample: SamplePart, detail: Detail) -> dict[str, object]:
    unsupported, missing = sample.unsupported[: detail.statements], sample.missing[: detail.statements]
    same = sample.baseline_answer is not None and sample.baseline_answer == sample.answer
    return {
        "id": escape.clip(sample.id, 120),
        "question": detail.clip(sample.question),
        "place": None if sample.place is None else str(sample.place),
        "url": None if sample.place is None else sample.place.url,
        "tags": [escape.clip(tag, 60) for tag in sample.tags[:8]],
        "changes": [
            {
                "title": wording.metric_title(change.metric),
                "current": formatting.score(change.current),
                "baseline": None if change.baseline is None else formatting.score(change.baseline),
                "note": change.note,
            }
            for change in sample.changes
        ],
        "unsupported": [
            {
                "text": detail.clip(bad.text),
                "verdict": bad.verdict,
                "quote": detail.clip(bad.quote) if bad.quote else "",
            }
            for bad in unsupported
        ],
        "unsupported_left": len(sample.unsupported) - len(unsupported),
        "missing": [detail.clip(text) for text in missing],
        "cause": sample.cause,
        "missing_left": len(sample.missing) - len(missing),
        "answer": detail.quoted(sample.answer),
        "reference": detail.quoted(sample.reference),
        "baseline_answer": "" if same else detail.quoted(sample.baseline_answer),
        "same_answer": same,
        "contexts": sample.contexts,
        "useful_contexts": sample.useful_contexts,
        "detailed": sample.detailed,
    }


def _failure(group: FailurePart, metrics: int, detail: Detail) -> dict[str, object]:
    shown = group.samples[: detail.ids]
    return {
        "by": group.by,
        "reason": detail.clip(group.reason),
        "metrics": list(group.metrics) if len(group.metrics) < metrics else [],
        "count": formatting.counted(len(group.samples), "sample"),
        "samples": [
            {"id": escape.clip(sample.id, 120), "url": None if sample.place is None else sample.place.url}
            for sample in shown
        ],
        "left": len(group.samples) - len(shown),
    }


def _comparison(view: ReportView, detail: Detail) -> dict[str, object] | None:
    found = view.comparison
    if found is None:
        return None
    return {
        **asdict(found),
        "label": found.baseline,
        "on": wording.compared_on(found.paired, found.total) if found.comparable else "",
        "notes": [detail.clip(wording.sentence(note)) for note in found.notes[: detail.notes]],
    }


def _cost(view: ReportView) -> dict[str, object] | None:
    cost = view.cost
    if cost is None:
        return None
    return {
        "calls": formatting.counted(cost.calls, "judge call"),
        "cached": f"{cost.cached_calls:,}" if cost.cached_calls else "",
        "tokens": f"{cost.input_tokens + cost.output_tokens:,}",
        "paid": bool(cost.calls or cost.input_tokens),
        "usd": formatting.dollars(cost.usd),
        "cached_share": cost.cached_share,
    }


def _check(check: Check, detail: Detail) -> dict[str, object]:
    return {
        "title": marked_title(check),
        "icon": _icon(check.status, check.action),
        "state": wording.status_word(check.status, check.action),
        "n": f"{check.n:,}" if check.n else "–",
        "method": check.interval.method if check.interval else None,
        "confidence": formatting.percent(check.interval.confidence) if check.interval else None,
        "reason": escape.clip(check_reason(check), min(detail.text, _MAX_REASON)),
    }


def _run(view: ReportView) -> dict[str, object]:
    run = view.run
    return {
        **asdict(run),
        "samples": formatting.counted(run.samples, "sample"),
        "usage": wording.system_usage(run.usage),
        "golden_files": [escape.clip(file, 120) for file in run.golden_files[:5]],
        "version": run.ragstone_version,
        "wall": None if run.wall_s is None else formatting.seconds(run.wall_s),
    }
