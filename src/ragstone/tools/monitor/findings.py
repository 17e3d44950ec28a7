"""What is found in a window: limits that are shown to be exceeded, and changes from the
windows before it.

All checks of a window share one error rate, so that steady windows raise about
FALSE_ALARMS false alarms a year. A mean is beyond its limit if its interval is as a
whole (exact binomial for a share, else Gaffke's bound). A figure has changed if
Student's prediction from the last windows excludes the newest one, or the mean of the
newest two, and if it is further off than is allowed. `bench/monitoring.py` simulates
it.
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

FALSE_ALARMS = 0.25
"""A year, over all checks of steady windows."""

WINDOWS = 28
"""A window is compared with the mean of so many windows before it, at most."""

MIN_WINDOWS = 7
"""With fewer windows before it, nothing is compared."""

LATENCY_RISE = 0.5
"""By how much slower answers may get, relative to the last windows, unless [system] in
the policy says it."""

NOTABLE_SHARE = 0.01
"""A share with a limit is a warning from here on."""

_LOOKS = (1, 2)
"""So many of the newest windows are compared with those before them."""

_YEAR = timedelta(days=365)


class Allowed(Struct, frozen=True):
    """What is allowed of a figure or a metric: its `limit`, and by how much it may be
    worse than in earlier windows.

    `max_change` is relative for latencies.
    """

    limit: float | None
    max_change: float
    rise_is_worse: bool = True
    limit_action: Action = Action.BLOCK
    change_action: Action = Action.BLOCK


def judge_window(
    line: RunLine,
    scores: RunScores,
    before: Mapping[str, Sequence[float]],
    policy: Policy,
) -> GateVerdict:
    """The verdict on the window of `line`, with the `scores` of its sample: of no
    metric, if none was judged. Pure.

    `before` has the values of its figures in the windows that it is compared with
    (`values_before`).
    """
    rules = _allowed(scores, policy)
    logged = {name: rule for name, rule in rules.items() if name in line.figures}
    limited = [name for name, rule in logged.items() if rule.limit is not None]
    compared = [name for name in logged if len(before[name]) >= MIN_WINDOWS]
    checks = len(limited) + len(compared)
    false_alarms = FALSE_ALARMS * (_length(line) / _YEAR)
    error_rate = false_alarms / max(1, checks)
    findings = []
    for name, rule in logged.items():
        values = _values(name, line.figures[name], scores)
        beyond = _beyond_limit(name, rule, values, error_rate)
        changed = _changed(name, rule, line, before, error_rate)
        findings += [check.finding for check in (beyond, changed) if check is not None]
    least = policy.gate.min_coverage
    if line.coverage < least:
        coverage = percent(line.coverage)
        required = percent(least)
        text = f"only {coverage} of the sample could be scored, and at least {required} must be."
        findings.append(Finding(CheckKind.COVERAGE, Level.ERROR, text))
    if line.figures["questions"].value == 0.0:
        text = "No question was logged: is the application up, and does this job read its log?"
        findings.append(Finding("questions", Level.WARNING, text))
    n_before = len(before["questions"])
    if n_before < MIN_WINDOWS:
        text = f"Nothing is compared with earlier windows yet: there are {n_before} of at least {MIN_WINDOWS}."
        findings.append(Finding("windows", Level.NOTE, text))
    return _verdict(findings)


def values_before(
    line: RunLine, past: Sequence[RunLine], policy: Policy
) -> dict[str, list[float]]:
    """The values of each figure of `line` in the windows that it is compared with, the
    oldest first.

    These are those of `past` that are as long, since the level that is accepted, and by
    the same judge, without those that had an alert for the figure.
    """
    since = policy.monitor.level_since or date.min
    length = _length(line)
    values: dict[str, list[float]] = {name: [] for name in line.figures}
    for then in past:
        window = then.window
        if window is None or _length(then) != length:
            continue
        if then.time >= line.time or then.time.date() < since:
            continue
        for name in values.keys() & (window.figures.keys() - set(window.alerts)):
            if _is_same_judge(name, line, then):
                values[name].append(window.figures[name].value)
    return values


def _length(line: RunLine) -> timedelta:
    """How long the window of `line` is; 0 for a run that is none."""
    if line.window is None:
        return timedelta(0)
    return line.window.end - line.time


def _is_same_judge(name: str, line: RunLine, then: RunLine) -> bool:
    """Whether a figure was judged alike in both windows, if it is a metric."""
    version = line.versions.get(name)
    if version != then.versions.get(name):
        return False
    needs_judge = version is not None and is_judged(name, version)
    return not needs_judge or line.judge_key == then.judge_key


def _allowed(scores: RunScores, policy: Policy) -> dict[str, Allowed]:
    """What is allowed of each figure, and by the policy's rules of each metric."""
    rules = policy.monitor
    system = policy.system
    limits = {
        "slow": rules.max_slow,
        "errors": system.max_error_rate,
        "without_sources": rules.max_without_sources,
    }
    rise = system.max_latency_rise
    allowed = {name: Allowed(limits.get(name), rules.max_drop) for name in SHARES}
    of_latency = Allowed(None, LATENCY_RISE if rise is None else rise)
    allowed |= dict.fromkeys(LATENCIES, of_latency)
    for rule in resolve_rules(policy, scores):
        if rule.slice is not None:
            continue
        limit = None
        if rule.min is not None:
            limit = rule.direction.shown(rule.min)
        drop = rules.max_drop
        if rule.written and rule.max_drop is not None:
            drop = rule.max_drop
        allowed[rule.metric] = Allowed(
            limit, drop, rule.lower_is_better, rule.floor_action, rule.drop_action
        )
    return allowed


def _values(name: str, part: FigurePart, scores: RunScores) -> NDArray[np.float64]:
    """The values (n,) of single answers: 1 for those that a share counts, else 0; or
    the scores of a metric."""
    if name in scores.metrics:
        values = scores.metrics[name].values
        return np.array(list(values.values()))
    hits = 0
    if name in SHARES:
        hits = round(part.value * part.n)
    return np.repeat([1.0, 0.0], [hits, part.n - hits])


def _beyond_limit(
    name: str, rule: Allowed, values: NDArray[np.float64], error_rate: float
) -> Check | None:
    """A failure if the mean is shown to be beyond the limit; a warning if it is beyond
    it, or notable."""
    if rule.limit is None:
        return None
    confidence = 1.0 - 2.0 * error_rate
    interval = mean_interval(values, confidence=confidence)
    notable = rule.limit
    if name in SHARES:
        notable = min(rule.limit, NOTABLE_SHARE)
    if rule.rise_is_worse:
        kind = CheckKind.CEILING
        side = "at most"
        is_shown = interval.low > rule.limit
        is_notable = interval.estimate > notable
    else:
        kind = CheckKind.FLOOR
        side = "at least"
        is_shown = interval.high < rule.limit
        is_notable = interval.estimate < notable
    mean = show_figure(name, interval.estimate)
    answers = counted(interval.n, "answer")
    limit = show_figure(name, rule.limit)
    text = f"{mean} of {answers}, and {side} {limit}"
    if is_shown:
        return _check(name, kind, Status.FAIL, rule.limit_action, text)
    if is_notable:
        return _check(name, kind, Status.INCONCLUSIVE, Action.WARN, text)
    return None


def _changed(
    name: str,
    rule: Allowed,
    line: RunLine,
    before: Mapping[str, Sequence[float]],
    error_rate: float,
) -> Check | None:
    """A failure if the newest window, or the mean of the newest two, is shown to be
    worse than those before."""
    part = line.figures[name]
    values = before[name]
    kind = CheckKind.DROP
    sign = -1.0
    way = "less"
    if rule.rise_is_worse:
        kind = CheckKind.RISE
        sign = 1.0
        way = "more"
    confidence = 1.0 - 2.0 * error_rate / len(_LOOKS)
    for newest in _LOOKS:
        place = len(values) - newest + 1
        start = max(0, place - WINDOWS)
        past = np.array(values[start:place])
        if len(past) < MIN_WINDOWS:
            break
        recent = [*values[place:], part.value]
        mean = float(np.mean(recent))
        predicted = student_interval(past, further=newest, confidence=confidence)
        level = predicted.estimate
        scale = level if name in LATENCIES else 1.0
        worse = sign * (mean - level)
        limit = rule.max_change * scale
        min_total = MIN_SAMPLES * scale
        is_enough = worse > limit and worse * part.n >= min_total
        margin = predicted.high - level
        if is_enough and worse > margin:
            shown_mean = show_figure(name, mean)
            windows = counted(newest, "window")
            now = f"{shown_mean} in the newest {windows}"
            shown_level = show_figure(name, level)
            then = f"{shown_level} in the {len(past)} before"
            shown_limit = show_figure(name, limit)
            text = f"{now}, {then}; {shown_limit} {way}"
            return _check(name, kind, Status.FAIL, rule.change_action, text)
    return None


def _check(
    name: str, kind: CheckKind, status: Status, action: Action, text: str
) -> Check:
    title = TITLES.get(name, name)
    reason = f"{title}: {text} is allowed."
    check_id = f"{name}.{kind}"
    return Check(check_id, kind, status, action, reason, name)


def _verdict(findings: Sequence[Finding]) -> GateVerdict:
    """The verdict over `findings`, which are all that is not as it should be."""
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
        more_alerts = counted(len(blocking) - 1, "more alert")
        reason += f" And {more_alerts}."
    status = Status.FAIL if failures else Status.ERROR
    return GateVerdict(status, reason, tuple(findings))
