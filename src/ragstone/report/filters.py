"""The filters of all templates: titles, states, numbers and phrases, the same in every format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ragstone import formatting
from ragstone.evaluation.manifest import SystemUsage
from ragstone.formatting import answer_cost, bound, change, counted, digits_for, score, whole
from ragstone.gate.changes import changes_line
from ragstone.gate.speed_and_price import usage_line
from ragstone.gate.verdict import CHANGES, LEVELS, MIN_SAMPLES, Action, Check, CheckKind, Diagnosis, Interval, Status
from ragstone.metrics.registry import METRICS, metric_title
from ragstone.report.parts import ChangePart, CheckPart, ComparisonPart, Document, MetricPart, Place, SamplePart

ICONS = {"pass": "✅", "fail": "❌", "warn": "⚠️", "inconclusive": "🟡", "error": "🚫", "not gated": "▫️"}
"""By status word, in Markdown and notebooks."""

WARNS = "\u00a0(warns)"
"""What follows a check that only warns."""

METRIC_KINDS = LEVELS | CHANGES | {CheckKind.TARGET, CheckKind.APPLICABILITY}
"""The checks of a metric that are shown in its row."""

_SIGNS = {"floor": "≥", "ceiling": "≤", "target": "target", "drop": "drop\u00a0≤", "rise": "rise\u00a0≤"}

_STATUSES = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.PASS, None)

_OTHER_NAMES = sorted((name for name, one in METRICS.items() if one.info.title.lower() != name), key=len, reverse=True)
_NAMES = re.compile(rf"(?<![\w.`'/-])(?:{'|'.join(map(re.escape, _OTHER_NAMES))})(?![\w`'/@-]|\.\w)")
"""The metrics whose name isn't their title, but not in a path or a command."""


def status_word(part: MetricPart | Check) -> str:
    """``pass``, ``fail``, ``warn`` (bad, but doesn't block), ``inconclusive``, ``error``, ``not gated``."""
    if part.status is None:
        return "not gated"
    if part.status in (Status.FAIL, Status.ERROR) and part.action is Action.WARN:
        return "warn"
    return str(part.status)


def icon(part: MetricPart | Check | str) -> str:
    """The icon of a status word, or of what has one."""
    return ICONS[part if isinstance(part, str) else status_word(part)]


def day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def place_text(place: Place | None) -> str:
    """``golden.jsonl:12``; empty if the place is not known."""
    return "" if place is None else str(place)


def severity(part: MetricPart | Check) -> tuple[bool, bool, int]:
    """The lowest is the most important; metrics without a check come last."""
    passes = part.status in (Status.PASS, None)
    return (passes, part.action is not Action.BLOCK, _STATUSES.index(part.status))


def sentence(text: str) -> str:
    """`text` with metrics by their titles, and a capital first letter unless it starts with a name (``scores.csv``)."""
    text = _NAMES.sub(lambda match: metric_title(match[0]), text)
    first_word = text.partition(" ")[0].rstrip(".")
    return text if any(sign in first_word for sign in "_./") else text[:1].upper() + text[1:]


def row_name(row: MetricPart) -> str:
    """``Faithfulness``, ``Faithfulness · lang:de``."""
    return row.title if row.slice is None else f"{row.title} · {row.slice}"


def interval(limits: Interval | None, digits: int = 2, *, signed: bool = False) -> str:
    """``[0.74, 0.84]`` with a non-breaking space, or nothing for None."""
    if limits is None:
        return ""
    form = change if signed else score
    return f"[{form(limits.low, digits)},\u00a0{form(limits.high, digits)}]"


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a metric as text: two decimals, or more where two would contradict its state.

    A score of fewer samples than the metric doesn't apply to says of how many: ``1.00 (n = 1)``.
    """

    score: str
    interval: str
    change: str
    change_interval: str


def figures(row: MetricPart) -> Figures:
    digits = _digits(row.limit(LEVELS), row.score, row.interval, lower_is_better=row.lower_is_better)
    allowed = row.limit(CHANGES)
    if allowed is not None and not row.lower_is_better:
        allowed = -allowed
    change_digits = _digits(allowed, row.change, row.change_interval, lower_is_better=row.lower_is_better)
    few = f" (n\u00a0=\u00a0{row.n:,})" if row.score is not None and row.n < row.not_applicable else ""
    return Figures(
        score=f"{score(row.score, digits)}{few}",
        interval=interval(row.interval, digits),
        change=change(row.change, change_digits),
        change_interval=interval(row.change_interval, change_digits, signed=True),
    )


def _digits(limit: float | None, value: float | None, limits: Interval | None, *, lower_is_better: bool) -> int:
    """Decimals with which a value, or an interval, on the wrong side of `limit` isn't rounded onto it."""
    if limit is None:
        return 2
    values = [] if value is None else [value]
    if limits is not None:
        values.append(limits.low if lower_is_better else limits.high)
    return digits_for(limit, [number for number in values if (number > limit) == lower_is_better])


def scored(row: MetricPart) -> str:
    """``0.85 [0.74, 0.91]``."""
    texts = figures(row)
    return f"{texts.score} {texts.interval}".strip()


def changed(row: MetricPart) -> str:
    """``−0.06 [−0.11, −0.02]``."""
    texts = figures(row)
    return f"{texts.change} {texts.change_interval}".strip()


def spread(row: MetricPart) -> str:
    """``0.00 to 1.00, sd 0.21``: lowest, highest and standard deviation; nothing without scores."""
    if row.min is None:
        return ""
    deviation = "" if row.sd is None else f", sd {score(row.sd)}"
    return f"{score(row.min)} to {score(row.max)}{deviation}"


def thresholds(row: MetricPart) -> list[str]:
    """``≥ 0.85``, ``target 0.95`` and ``drop ≤ 0.02 (warns)`` (or ``≤``, ``rise ≤``); its spaces don't break."""
    return [
        f"{_SIGNS[limit.kind]}\u00a0{bound(limit.value)}{WARNS if limit.warns else ''}"
        for limit in sorted(row.limits, key=lambda limit: list(_SIGNS).index(limit.kind))
    ]


def before_now(row: MetricPart) -> str:
    """``0.89 → 0.80`` on the samples that both runs have, or the score alone."""
    if row.current is None or row.baseline is None:
        return score(row.score)
    return f"{score(row.baseline)} → {score(row.current)}"


def moved(part: ChangePart) -> str:
    """``Faithfulness 0.90 → 0.40``, or the score alone without a baseline."""
    before = "" if part.baseline is None else f"{score(part.baseline)} → "
    return f"{metric_title(part.metric)} {before}{score(part.current)}"


def worst_heading(samples: Iterable[SamplePart]) -> str:
    """The heading of the list of worst samples: without a baseline, nothing can have got worse."""
    compared = any(part.baseline is not None for sample in samples for part in sample.changes)
    return "What got worse" if compared else "What falls short"


def check_title(check: CheckPart) -> str:
    """``Coverage``, ``Floor: Faithfulness (lang:de)``, ``Must pass: refund-window``."""
    return f"{check.title} ({check.slice})" if check.slice is not None else check.title


def marked_title(check: CheckPart) -> str:
    """The title of a check, with a mark if it passes and would only warn; one that does not pass has another word."""
    only_warns = check.action is Action.WARN and check.status is Status.PASS and check.kind != CheckKind.TARGET
    return f"{check_title(check)}{WARNS if only_warns else ''}"


def check_reason(check: Check) -> str:
    """The reason as a sentence below the check's title, which already names the metric."""
    return sentence(check.short_reason or check.reason)


def other_checks(checks: Iterable[CheckPart]) -> list[CheckPart]:
    """The checks that have no row of a metric, most important first.

    Of the passing coverage checks, only the lowest is there. Other coverage checks that say the same are one.
    """
    covered: list[CheckPart] = []
    alike: dict[object, list[CheckPart]] = {}
    for check in sorted(checks, key=severity):
        if check.kind in METRIC_KINDS and check.metric is not None:
            continue
        if check.kind == CheckKind.COVERAGE and check.status is Status.PASS:
            covered.append(check)
            continue
        same = (status_word(check), check.slice, check.short_reason)
        alike.setdefault(same if check.kind == CheckKind.COVERAGE and check.metric else id(check), []).append(check)
    merged = [_merged(group) for group in alike.values()]
    if len(covered) > 1:
        lowest = min(covered, key=lambda check: 1.0 if check.estimate is None else check.estimate)
        title = lowest.title.partition(":")[0]
        covered = [replace(lowest, metric=None, slice=None, action=covered[0].action, title=title)]
    return sorted([*merged, *covered], key=severity)


def _merged(checks: Sequence[CheckPart]) -> CheckPart:
    """Checks of several metrics as one: ``Coverage: Faithfulness, Context recall``."""
    if len(checks) == 1:
        return checks[0]
    names = [metric_title(check.metric) for check in checks if check.metric is not None]
    return replace(checks[0], title=f"{checks[0].title.partition(':')[0]}: {formatting.some(names)}")


def causes(report: Document) -> str:
    """The causes of the worse samples, counted; empty for a run that passes."""
    diagnosis = report.explanation.diagnosis
    return "" if diagnosis is None or report.verdict.status is Status.PASS else count_causes(diagnosis)


def count_causes(diagnosis: Diagnosis, most: int = 3) -> str:
    """``9 of 14: retrieved but ignored; 3: invented; 2 unexplained``; empty if too few samples have a cause."""
    explained = sum(cause.count for cause in diagnosis.counts)
    if explained < MIN_SAMPLES:
        return ""
    parts = [f"{cause.count}: {cause.title}" for cause in diagnosis.counts[:most]]
    parts[0] = f"{diagnosis.counts[0].count} of {diagnosis.samples}: {diagnosis.counts[0].title}"
    others = sum(cause.count for cause in diagnosis.counts[most:])
    if others:
        parts.append(f"{others} with other causes")
    if diagnosis.samples > explained:
        parts.append(f"{diagnosis.samples - explained} unexplained")
    return "; ".join(parts)


def cause_actions(report: Document) -> list[str]:
    """``To do (invented): …`` for each cause, the most frequent first; empty where `causes` is."""
    diagnosis = report.explanation.diagnosis
    if diagnosis is None or not causes(report):
        return []
    if len(diagnosis.counts) == 1:
        return [f"To do: {diagnosis.counts[0].action}"]
    return [f"To do ({cause.title}): {cause.action}" for cause in diagnosis.counts]


def changes(report: Document) -> str:
    """What changed since the baseline: a line, empty if nothing did."""
    return changes_line(report.explanation.changes, worse=report.verdict.status is Status.FAIL)


def compared_on(comparison: ComparisonPart) -> str:
    """``on all 60 samples``, ``on 48 of 60 samples``."""
    total = counted(comparison.total, "sample")
    return f"on all {total}" if comparison.paired == comparison.total else f"on {comparison.paired:,} of {total}"


def usage_changes(report: Document) -> str:
    """What an answer took and cost before, and now: a line, empty if nothing is known."""
    return usage_line(report.explanation.usage_changes)


def system_usage(reported: SystemUsage | None) -> str:
    """What an answer of the system under test takes: ``1,234 tokens per answer (p95 2,345), $0.0012 (p95 $0.0031)``."""
    if reported is None:
        return "tokens not reported"
    text = f"{whole(reported.tokens_mean)} tokens per answer (p95 {whole(reported.tokens_p95)})"
    if reported.cost_mean_usd is not None and reported.cost_p95_usd is not None:
        text += f", {answer_cost(reported.cost_mean_usd)} (p95 {answer_cost(reported.cost_p95_usd)})"
    if reported.reported < reported.answers:
        text += f", reported by {reported.reported:,} of {counted(reported.answers, 'answer')}"
    return text


_NUMBERS = ("change", "counted", "dollars", "percent", "score", "seconds", "some", "whole")

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(formatting, name) for name in _NUMBERS},
    **{
        function.__name__: function
        for function in (
            *(before_now, cause_actions, causes, changed, changes, check_reason, check_title, compared_on, day),
            *(figures, icon, marked_title, metric_title, moved, other_checks, place_text, row_name, scored),
            *(sentence, spread, status_word, system_usage, thresholds, usage_changes, worst_heading),
        )
    },
}
"""What every template can use, by name."""
