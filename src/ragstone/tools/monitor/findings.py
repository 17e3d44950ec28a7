"""Finds limits that a window exceeds, and figures that are worse than in the windows
before it.

All checks of a window share one error rate, so that a steady application has about
FALSE_ALARMS_PER_YEAR. A limit is exceeded if the whole interval of the mean is beyond it
(exact binomial for a share, Gaffke's bound for a metric). A figure is worse if Student's
prediction interval from the last windows excludes the newest window, or the mean of the
newest two, and if the difference is larger than allowed.
`bench/monitoring.py` simulates how often this is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent
from ragstone.gate.comparability import is_judged
from ragstone.gate.findings import Finding, Level
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import (
    MIN_SAMPLES,
    Action,
    Check,
    CheckKind,
    GateVerdict,
    Status,
)
from ragstone.history.lines import FigurePart, RunLine
from ragstone.stats.intervals import mean_interval, student_interval
from ragstone.tools.monitor.window import LATENCIES, SHARES, TITLES, show_figure

FALSE_ALARMS_PER_YEAR = 0.25
"""The expected number of false alarms a year, over all checks."""

MAX_WINDOWS = 28
"""A window is compared with so many windows before it, at most."""

MIN_WINDOWS = 7
"""A window is compared with nothing if there are fewer windows before it."""

MAX_LATENCY_RISE = 0.5
"""The share by which answers may be slower than in the last windows, unless [system] in
the policy sets max_latency_rise."""

NOTABLE_SHARE = 0.01
"""A share that has a limit, and is above this, is a warning."""

_NEWEST_COUNTS = (1, 2)
"""The newest window, and the mean of the newest two, are compared with those before."""

_YEAR = timedelta(days=365)


class AllowedValues(Struct, frozen=True):
    """What is allowed of a figure or a metric."""

    limit: float | None
    """The worst value that is allowed; None if there is no limit."""
    max_change: float
    """By how much it may be worse than in earlier windows: as a share of their mean for
    latencies, else as a difference."""
    rise_is_worse: bool = True
    limit_action: Action = Action.BLOCK
    change_action: Action = Action.BLOCK


def judge_window(
    line: RunLine,
    scores: RunScores,
    before: Mapping[str, Sequence[float]],
    policy: Policy,
) -> GateVerdict:
    """Decide on the window of `line`.

    `scores` are those of its sample, without metrics if no answer was judged. `before`
    has the values of each figure in the windows that it is compared with
    (`values_before`).
    """
    allowed_by_name = {
        name: allowed
        for name, allowed in _allowed_by_name(scores, policy).items()
        if name in line.figures
    }
    limited = [
        name for name, allowed in allowed_by_name.items() if allowed.limit is not None
    ]
    compared = [name for name in allowed_by_name if len(before[name]) >= MIN_WINDOWS]
    check_count = len(limited) + len(compared)
    false_alarms = FALSE_ALARMS_PER_YEAR * (_length(line) / _YEAR)
    error_rate = false_alarms / max(1, check_count)
    findings = []
    for name, allowed in allowed_by_name.items():
        values = _values(name, line.figures[name], scores)
        checks = (
            _check_limit(name, allowed, values, error_rate),
            _check_change(name, allowed, line, before, error_rate),
        )
        findings += [check.finding for check in checks if check is not None]
    min_coverage = policy.gate.min_coverage
    if line.coverage < min_coverage:
        coverage = percent(line.coverage)
        required = percent(min_coverage)
        text = f"only {coverage} of the sample could be scored, and at least {required} must be."
        findings.append(Finding(CheckKind.COVERAGE, Level.ERROR, text))
    if line.figures["questions"].value == 0.0:
        text = "No question was logged: is the application up, and does this job read its log?"
        findings.append(Finding("questions", Level.WARNING, text))
    windows_before = len(before["questions"])
    if windows_before < MIN_WINDOWS:
        text = f"Nothing is compared with earlier windows yet: there are {windows_before} of at least {MIN_WINDOWS}."
        findings.append(Finding("windows", Level.NOTE, text))
    return _verdict(findings)


def values_before(
    line: RunLine, past: Sequence[RunLine], policy: Policy
) -> dict[str, list[float]]:
    """The values of each figure of `line` in the windows of `past` that it is compared
    with, the oldest first.

    These windows are as long, before that of `line`, not before the policy's
    level_since, had no alert for the figure, and were scored by the same judge.
    """
    level_since = policy.monitor.level_since or date.min
    length = _length(line)
    values: dict[str, list[float]] = {name: [] for name in line.figures}
    for earlier in past:
        window = earlier.window
        if window is None or _length(earlier) != length:
            continue
        if earlier.time >= line.time or earlier.time.date() < level_since:
            continue
        without_alert = window.figures.keys() - set(window.alerts)
        for name in values.keys() & without_alert:
            if _is_comparable(name, line, earlier):
                values[name].append(window.figures[name].value)
    return values


def _length(line: RunLine) -> timedelta:
    """How long the window of `line` is; 0 for a run that isn't a window."""
    if line.window is None:
        return timedelta(0)
    return line.window.end - line.time


def _is_comparable(name: str, line: RunLine, earlier: RunLine) -> bool:
    """Whether a figure of two windows can be compared: a metric needs the same version
    of its formula, and the same judge if it has one."""
    version = line.versions.get(name)
    if version != earlier.versions.get(name):
        return False
    needs_judge = version is not None and is_judged(name, version)
    return not needs_judge or line.judge_key == earlier.judge_key


def _allowed_by_name(scores: RunScores, policy: Policy) -> dict[str, AllowedValues]:
    """What is allowed of each share, latency, and metric of `scores`."""
    rules = policy.monitor
    system = policy.system
    limits = {
        "slow": rules.max_slow,
        "errors": system.max_error_rate,
        "without_sources": rules.max_without_sources,
    }
    rise = system.max_latency_rise
    max_rise = MAX_LATENCY_RISE if rise is None else rise
    allowed = {name: AllowedValues(limits.get(name), rules.max_drop) for name in SHARES}
    allowed |= dict.fromkeys(LATENCIES, AllowedValues(limit=None, max_change=max_rise))
    for rule in resolve_rules(policy, scores):
        if rule.slice is not None:
            continue
        limit = None
        if rule.min is not None:
            limit = rule.direction.reported(rule.min)
        max_drop = rules.max_drop
        if rule.written and rule.max_drop is not None:
            max_drop = rule.max_drop
        allowed[rule.metric] = AllowedValues(
            limit,
            max_drop,
            rise_is_worse=rule.lower_is_better,
            limit_action=rule.floor_action,
            change_action=rule.drop_action,
        )
    return allowed


def _values(name: str, part: FigurePart, scores: RunScores) -> NDArray[np.float64]:
    """The value (n,) of each answer: its score of a metric, or 1 if it is counted in a
    share, and 0 if not."""
    if name in scores.metrics:
        values = scores.metrics[name].values
        return np.array(list(values.values()))
    hits = 0
    if name in SHARES:
        hits = round(part.value * part.n)
    return np.repeat([1.0, 0.0], [hits, part.n - hits])


def _check_limit(
    name: str, allowed: AllowedValues, values: NDArray[np.float64], error_rate: float
) -> Check | None:
    """A failure if the mean of `values` is shown to be beyond the limit, a warning if it
    is only estimated to be, or is a notable share; None otherwise."""
    if allowed.limit is None:
        return None
    confidence = 1.0 - 2.0 * error_rate
    interval = mean_interval(values, confidence=confidence)
    notable = allowed.limit
    if name in SHARES:
        notable = min(allowed.limit, NOTABLE_SHARE)
    if allowed.rise_is_worse:
        kind = CheckKind.CEILING
        side = "at most"
        is_shown = interval.low > allowed.limit
        is_notable = interval.estimate > notable
    else:
        kind = CheckKind.FLOOR
        side = "at least"
        is_shown = interval.high < allowed.limit
        is_notable = interval.estimate < notable
    mean = show_figure(name, interval.estimate)
    answers = counted(interval.n, "answer")
    limit = show_figure(name, allowed.limit)
    text = f"{mean} of {answers}, and {side} {limit} is allowed."
    if is_shown:
        return _check(name, kind, Status.FAIL, allowed.limit_action, text)
    if is_notable:
        return _check(name, kind, Status.INCONCLUSIVE, Action.WARN, text)
    return None


def _check_change(
    name: str,
    allowed: AllowedValues,
    line: RunLine,
    before: Mapping[str, Sequence[float]],
    error_rate: float,
) -> Check | None:
    """A failure if the newest window, or the mean of the newest two, is shown to be
    worse than those before; None otherwise."""
    part = line.figures[name]
    values = before[name]
    kind = CheckKind.DROP
    sign = -1.0
    more_or_less = "less"
    if allowed.rise_is_worse:
        kind = CheckKind.RISE
        sign = 1.0
        more_or_less = "more"
    confidence = 1.0 - 2.0 * error_rate / len(_NEWEST_COUNTS)
    for newest_count in _NEWEST_COUNTS:
        # The newest window is that of `line`, and not among `values`.
        past_end = len(values) - (newest_count - 1)
        past_start = max(0, past_end - MAX_WINDOWS)
        past = np.array(values[past_start:past_end])
        if len(past) < MIN_WINDOWS:
            break
        newest = [*values[past_end:], part.value]
        mean = float(np.mean(newest))
        predicted = student_interval(past, further=newest_count, confidence=confidence)
        level = predicted.estimate
        scale = level if name in LATENCIES else 1.0
        loss = sign * (mean - level)
        max_loss = allowed.max_change * scale
        # What fewer than MIN_SAMPLES wrong answers would cause is no argument.
        is_large = loss > max_loss and loss * part.n >= MIN_SAMPLES * scale
        margin = predicted.high - level
        if is_large and loss > margin:
            windows = counted(newest_count, "window")
            text = (
                f"{show_figure(name, mean)} in the newest {windows}, "
                f"{show_figure(name, level)} in the {len(past)} before; "
                f"{show_figure(name, max_loss)} {more_or_less} is allowed."
            )
            return _check(name, kind, Status.FAIL, allowed.change_action, text)
    return None


def _check(
    name: str, kind: CheckKind, status: Status, action: Action, text: str
) -> Check:
    """A check on a figure or a metric, with `text` as its reason."""
    title = TITLES.get(name, name)
    return Check(f"{name}.{kind}", kind, status, action, f"{title}: {text}", name)


def _verdict(findings: Sequence[Finding]) -> GateVerdict:
    """The verdict that follows from `findings`."""
    by_level: dict[Level, list[Finding]] = {level: [] for level in Level}
    for finding in findings:
        by_level[finding.level].append(finding)
    failures = by_level[Level.FAILURE]
    blocking = failures or by_level[Level.ERROR]
    if not blocking:
        warnings = counted(len(by_level[Level.WARNING]), "warning")
        reason = f"no alert, {warnings}."
        return GateVerdict(Status.PASS, reason, tuple(findings))
    reason = blocking[0].text
    if len(blocking) > 1:
        other_alerts = counted(len(blocking) - 1, "more alert")
        reason += f" And {other_alerts}."
    status = Status.FAIL if failures else Status.ERROR
    return GateVerdict(status, reason, tuple(findings))
