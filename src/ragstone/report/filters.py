"""The filters of all templates: titles, states, numbers and phrases, the same in every
format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jinja2.runtime import Macro

from ragstone import formatting
from ragstone.formatting import bound, change, digits_for, score
from ragstone.gate.changes import changes_line
from ragstone.gate.speed_and_price import usage_line
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    MIN_SAMPLES,
    Action,
    Check,
    CheckKind,
    OracleShares,
    Status,
)
from ragstone.metrics.registry import METRICS, metric_title
from ragstone.report import templates
from ragstone.report.parts import ChangePart, CheckPart, Document, MetricPart

ICONS = {
    "pass": "✅",
    "fail": "❌",
    "warn": "⚠️",
    "inconclusive": "🟡",
    "error": "🚫",
    "not gated": "▫️",
}
"""By status word, in Markdown and notebooks."""

WARNS = "\u00a0(warns)"
"""What follows a check that only warns."""

METRIC_KINDS = LEVELS | CHANGES | {CheckKind.APPLICABILITY}
"""The checks of a metric that are shown in its row."""

_SIGNS = {
    "floor": "≥",
    "ceiling": "≤",
    "drop": "drop\u00a0≤",
    "rise": "rise\u00a0≤",
}

ORACLE_TITLE = "With the reference contexts given (oracle)"

_STATUSES = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.PASS, None)

_OTHER_NAMES = sorted(
    (name for name, metric in METRICS.items() if metric.info.title.lower() != name),
    key=len,
    reverse=True,
)
_NAMES = re.compile(
    rf"(?<![\w.`'/-])(?:{'|'.join(map(re.escape, _OTHER_NAMES))})(?![\w`'/@-]|\.\w)"
)
"""The metrics whose name isn't their title, but not in a path or a command."""


def status_word(part: MetricPart | Check) -> str:
    """``pass``, ``fail``, ``warn`` (bad, but doesn't block), ``inconclusive``,
    ``error``, ``not gated``."""
    if part.status is None:
        return "not gated"
    if part.status in (Status.FAIL, Status.ERROR) and part.action is Action.WARN:
        return "warn"
    return str(part.status)


def icon(part: MetricPart | Check) -> str:
    """The icon of the status word."""
    return ICONS[status_word(part)]


def severity(part: MetricPart | Check) -> tuple[bool, bool, int]:
    """The lowest is the most important; metrics without a check come last."""
    passes = part.status in (Status.PASS, None)
    return (passes, part.action is not Action.BLOCK, _STATUSES.index(part.status))


def importance(row: MetricPart) -> tuple[tuple[bool, bool, int], bool]:
    """The lowest is the most important; slices come after the whole run."""
    return severity(row), row.slice is not None


def sentence(text: str) -> str:
    """`text` with metrics by their titles, and a capital first letter unless it starts
    with a name (``scores.csv``)."""
    text = _NAMES.sub(lambda match: metric_title(match[0]), text)
    first_word = text.partition(" ")[0].rstrip(".")
    if any(sign in first_word for sign in "_./"):
        return text
    return text[:1].upper() + text[1:]


def row_name(row: MetricPart) -> str:
    """``Faithfulness``, ``Faithfulness · lang:de``."""
    if row.slice is None:
        return row.title
    return f"{row.title} · {row.slice}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a metric as text: two decimals, or more where two would contradict
    its state.

    A score of fewer samples than the metric doesn't apply to says of how many.
    """

    score: str
    interval: str
    change: str


def figures(row: MetricPart) -> Figures:
    limits = row.interval
    end = None
    if limits is not None:
        end = limits.low if row.lower_is_better else limits.high
    digits = _digits(row, row.limit(LEVELS), row.score, end)
    allowed = row.limit(CHANGES)
    if allowed is not None and not row.lower_is_better:
        allowed = -allowed
    shown = score(row.score, digits)
    if row.score is not None and row.n < row.not_applicable:
        shown += f" (n\u00a0=\u00a0{row.n:,})"
    interval = ""
    if limits is not None:
        interval = f"[{score(limits.low, digits)},\u00a0{score(limits.high, digits)}]"
    moved = change(row.change, _digits(row, allowed, row.change))
    return Figures(shown, interval, moved)


def _digits(row: MetricPart, limit: float | None, *values: float | None) -> int:
    """Decimals with which a value on the wrong side of `limit` isn't rounded onto
    it."""
    beyond = [
        number
        for number in values
        if limit is not None
        and number is not None
        and (number > limit) == row.lower_is_better
    ]
    return digits_for(limit, beyond)


def thresholds(row: MetricPart) -> list[str]:
    """``≥ 0.85`` and ``drop ≤ 0.02 (warns)`` (or ``≤``, ``rise ≤``);
    its spaces don't break."""
    return [
        f"{_SIGNS[limit.kind]}\u00a0{bound(limit.value)}{WARNS if limit.warns else ''}"
        for limit in sorted(
            row.limits, key=lambda limit: list(_SIGNS).index(limit.kind)
        )
    ]


def before_now(row: MetricPart) -> str:
    """``0.89 → 0.80`` on the samples that both runs have, or the score alone."""
    is_paired = row.current is not None and row.baseline is not None
    now = row.current if is_paired else row.score
    shown = score(now, _digits(row, row.limit(LEVELS), now))
    return f"{score(row.baseline)} → {shown}" if is_paired else shown


def moved(part: ChangePart) -> str:
    """``Faithfulness 0.90 → 0.40``, or the score alone without a baseline."""
    before = "" if part.baseline is None else f"{score(part.baseline)} → "
    return f"{metric_title(part.metric)} {before}{score(part.current)}"


def check_reason(check: Check) -> str:
    """The reason as a sentence below the check's title, which already names the
    metric."""
    return sentence(check.short_reason or check.reason)


def other_checks(checks: Iterable[CheckPart]) -> list[CheckPart]:
    """The checks that have no row of a metric, most important first.

    Those of coverage that say the same are one: ``Coverage: Faithfulness, Context
    recall``, or the lowest if they pass.
    """
    groups: dict[str, list[CheckPart]] = {}
    for check in sorted(checks, key=severity):
        if check.kind in METRIC_KINDS and check.metric is not None:
            continue
        name = check.name
        if check.kind == CheckKind.COVERAGE:
            name = f"{status_word(check)} {check.slice} {check.short_reason}"
            if check.passed:
                name = "coverage"
        groups.setdefault(name, []).append(check)
    merged = []
    for group in groups.values():
        check = min(group, key=lambda check: (check.estimate is None, check.estimate))
        title = check.title.partition(":")[0]
        names = [metric_title(other.metric) for other in group if other.metric]
        if len(group) > 1 and check.passed:
            check = replace(check, metric=None, slice=None, title=title)
        elif len(group) > 1:
            check = replace(group[0], title=f"{title}: {formatting.some(names)}")
        merged.append(check)
    return sorted(
        merged, key=lambda check: (severity(check), check.kind == CheckKind.COVERAGE)
    )


def changes(report: Document) -> str:
    """What changed since the baseline: a line, empty if nothing did.

    Who reads a report knows that the code changed.
    """
    others = [change for change in report.explanation.changes if change.what != "code"]
    return changes_line(others)


def usage_changes(report: Document) -> str:
    """What an answer took and cost before, and now: a line, empty if nothing is
    known."""
    return usage_line(report.explanation.usage_changes)


def oracle_lines(shares: OracleShares | None) -> list[str]:
    """What an oracle half of a run says: a sentence for each metric, then what
    qualifies them."""
    if shares is None:
        return []
    return templates.render_lines("oracle.txt.j2", templates.PACKAGE, shares=shares)


_FUNCTIONS = {
    function.__name__: function
    for function in (
        before_now,
        changes,
        check_reason,
        figures,
        icon,
        metric_title,
        moved,
        oracle_lines,
        other_checks,
        row_name,
        sentence,
        status_word,
        thresholds,
        usage_changes,
    )
}
_environment = templates.text_environment(templates.PACKAGE)
_environment.filters.update(_FUNCTIONS, answer_cost=formatting.answer_cost)
_environment.globals.update(MIN_SAMPLES=MIN_SAMPLES, WARNS=WARNS)

_phrases = _environment.get_template("phrases.txt.j2").module
PHRASES: Mapping[str, Callable[..., str]] = {
    name: macro for name, macro in vars(_phrases).items() if isinstance(macro, Macro)
}
"""What is said of one thing in every format, by name."""

FILTERS: Mapping[str, Callable[..., Any]] = {
    **templates.FILTERS,
    **_FUNCTIONS,
    **PHRASES,
    "cause_actions": lambda report: PHRASES["cause_actions"](report).splitlines(),
}
"""What every template can use, by name."""
