"""The filters of all templates: titles, states, numbers and phrases, the same in every
format."""

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
"""By status word, in Markdown and notebooks."""

WARNS = "\u00a0(warns)"
"""What follows a check that only warns."""

METRIC_KINDS = LEVEL_KINDS | CHANGE_KINDS | {CheckKind.APPLICABILITY}
"""The checks of a metric that are shown in its row."""

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


def figure(value: float | None, limit: float | None) -> str:
    """Two decimals, or more where two would not distinguish `value` from its limit."""
    return score(value, digits_for(value, [limit]))


def has_row(check: Check) -> bool:
    """Whether a check is shown in the row of its metric."""
    return check.kind in METRIC_KINDS and check.metric is not None


def other_checks(checks: Iterable[CheckPart]) -> list[CheckPart]:
    """The checks that have no row of a metric, most important first, those of coverage
    last among equals.

    Those of coverage that say the same are one: ``Coverage: Faithfulness, Context
    recall``, or the lowest if they pass.
    """
    groups: dict[str, list[CheckPart]] = {}
    for check in sorted(checks, key=_place):
        if has_row(check):
            continue
        name = check.name
        if check.kind == CheckKind.COVERAGE:
            name = "coverage"
            if not check.passed:
                name = f"{status_word(check)} {check.slice} {check.short_reason}"
        groups.setdefault(name, []).append(check)
    return list(map(_merged, groups.values()))


def _place(check: CheckPart) -> tuple[tuple[bool, bool, int], bool]:
    return severity(check), check.kind == CheckKind.COVERAGE


def _merged(checks: Sequence[CheckPart]) -> CheckPart:
    """Checks that say the same as one."""
    check = checks[0]
    if len(checks) == 1:
        return check
    title = check.title.partition(":")[0]
    if check.passed:
        lowest = min(checks, key=lambda check: check.estimate or 0.0)
        return replace(lowest, metric=None, slice=None, title=title)
    names = [metric_title(part.metric) for part in checks if part.metric]
    return replace(check, title=f"{title}: {formatting.join_first(names)}")


def oracle_lines(shares: OracleShares | None) -> list[str]:
    """What an oracle half of a run says: a sentence for each metric, then what
    qualifies them."""
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
