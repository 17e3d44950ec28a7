"""The filters of all templates: the titles, states, numbers and phrases that every format
shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from jinja2.runtime import Macro
from msgspec.structs import replace

from ragstone import formatting
from ragstone.formatting import digits_for, score
from ragstone.gate.verdict import (
    CHANGE_KINDS,
    LEVEL_KINDS,
    MIN_SAMPLES,
    Action,
    Check,
    CheckKind,
    OracleShares,
    Status,
)
from ragstone.metrics.registry import METRICS, metric_title
from ragstone.report import templates
from ragstone.report.parts import CheckPart, MetricPart

ICONS = {
    "pass": "✅",
    "fail": "❌",
    "warn": "⚠️",
    "inconclusive": "🟡",
    "error": "🚫",
    "not gated": "▫️",
}
"""The icon of each status word, in Markdown and notebooks."""

WARNS = "\u00a0(warns)"
"""Written after the title of a check that only warns."""

METRIC_ROW_KINDS = LEVEL_KINDS | CHANGE_KINDS | {CheckKind.APPLICABILITY}
"""The kinds of checks that are shown in the row of their metric."""

ORACLE_TITLE = "With the reference contexts given (oracle)"

_BY_SEVERITY = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.PASS, None)

_NAMES_TO_REPLACE = sorted(
    (name for name, metric in METRICS.items() if metric.info.title.lower() != name),
    key=len,
    reverse=True,
)
_METRIC_NAME = re.compile(
    rf"(?<![\w.`'/-])(?:{'|'.join(map(re.escape, _NAMES_TO_REPLACE))})(?![\w`'/@-]|\.\w)"
)
"""The name of a metric whose title is another one, but not in a path or a command. Longer
names come first: a shorter one may be their beginning."""


def status_word(part: MetricPart | Check) -> str:
    """Return ``pass``, ``fail``, ``inconclusive``, ``error``, ``warn`` for a failure or
    an error that doesn't block, or ``not gated`` for a metric without a check."""
    if part.status is None:
        return "not gated"
    if part.status in (Status.FAIL, Status.ERROR) and part.action is Action.WARN:
        return "warn"
    return str(part.status)


def icon(part: MetricPart | Check) -> str:
    """Return the icon of the status word."""
    return ICONS[status_word(part)]


def severity(part: MetricPart | Check) -> tuple[bool, bool, int]:
    """Return a sort key: what doesn't pass comes first, then what blocks."""
    passes = part.status in (Status.PASS, None)
    return (passes, part.action is not Action.BLOCK, _BY_SEVERITY.index(part.status))


def importance(row: MetricPart) -> tuple[tuple[bool, bool, int], bool]:
    """Return a sort key: by severity, then the whole run before its slices."""
    return severity(row), row.slice is not None


def sentence(text: str) -> str:
    """Return `text` with the titles of metrics in place of their names, and a capital
    first letter unless it starts with a name, such as ``scores.csv``."""
    text = _METRIC_NAME.sub(lambda match: metric_title(match[0]), text)
    first_word = text.partition(" ")[0].rstrip(".")
    if any(sign in first_word for sign in "_./"):
        return text
    return text[:1].upper() + text[1:]


def figure(value: float | None, limit: float | None) -> str:
    """Return `value` with two decimals, or more to distinguish it from its limit."""
    return score(value, digits_for(value, [limit]))


def has_row(check: Check) -> bool:
    """Whether a check is shown in the row of its metric."""
    return check.kind in METRIC_ROW_KINDS and check.metric is not None


def other_checks(checks: Iterable[CheckPart]) -> list[CheckPart]:
    """Return the checks that are not in the row of a metric, the most important first;
    among equals, those of coverage come last.

    Checks of coverage with the same reason become one: ``Coverage: Faithfulness, Context
    recall``. All that pass become one, with the lowest coverage.
    """
    groups: dict[str, list[CheckPart]] = {}
    for check in sorted(checks, key=_order_of_other_checks):
        if has_row(check):
            continue
        group = check.name
        if check.kind == CheckKind.COVERAGE:
            group = "coverage"
            if not check.passed:
                group = f"{status_word(check)} {check.slice} {check.short_reason}"
        groups.setdefault(group, []).append(check)
    return list(map(_merge, groups.values()))


def _order_of_other_checks(check: CheckPart) -> tuple[tuple[bool, bool, int], bool]:
    return severity(check), check.kind == CheckKind.COVERAGE


def _merge(checks: Sequence[CheckPart]) -> CheckPart:
    """Return one check for those of a group."""
    first = checks[0]
    if len(checks) == 1:
        return first
    title = first.title.partition(":")[0]
    if first.passed:
        lowest = min(checks, key=lambda check: check.estimate or 0.0)
        return replace(lowest, metric=None, slice=None, title=title)
    titles = [metric_title(check.metric) for check in checks if check.metric]
    return replace(first, title=f"{title}: {formatting.join_first(titles)}")


def oracle_lines(shares: OracleShares | None) -> list[str]:
    """Return what the oracle half of a run shows: a sentence for each metric, then the
    reservations."""
    if shares is None:
        return []
    return templates.render_lines("oracle.txt.j2", templates.PACKAGE, shares=shares)


_FUNCTIONS = {
    function.__name__: function
    for function in (
        icon,
        metric_title,
        oracle_lines,
        other_checks,
        sentence,
        status_word,
    )
}
_environment = templates.text_environment(templates.PACKAGE)
_environment.filters.update(
    _FUNCTIONS,
    answer_cost=formatting.answer_cost,
    bound=formatting.bound,
    digits_for=digits_for,
    figure=figure,
    json=partial(json.dumps, ensure_ascii=False),
)
_environment.globals.update(
    CHANGE_KINDS=CHANGE_KINDS,
    LEVEL_KINDS=LEVEL_KINDS,
    MIN_SAMPLES=MIN_SAMPLES,
    WARNS=WARNS,
)

_phrases_module = _environment.get_template("phrases.txt.j2").module
PHRASES: Mapping[str, Callable[..., str]] = {
    name: macro
    for name, macro in vars(_phrases_module).items()
    if isinstance(macro, Macro)
}
"""The macros of phrases.txt.j2, by name: each returns a phrase that all formats share."""

FILTERS: Mapping[str, Callable[..., Any]] = {
    **templates.FILTERS,
    **_FUNCTIONS,
    **PHRASES,
    "cause_actions": lambda report: PHRASES["cause_actions"](report).splitlines(),
}
"""The filters of every template, by name."""
