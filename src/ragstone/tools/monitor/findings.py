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
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
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
from ragstone.stats.intervals import mean_interval, prediction_interval
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


@dataclass(frozen=True, slots=True)
class Allowed:
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
    scores: RunScores | None,
    before: Mapping[str, Sequence[float]],
    policy: Policy,
) -> GateVerdict:
    """The verdict on the window of `line`, with the `scores` of its sample, if one was
    judged. Pure.

    `before` has the values of its figures in the windows that it is compared with
    (`values_before`).
    """
    rules = {
        name: rule
        for name, rule in _allowed(scores, policy).items()
        if name in line.figures
    }
    limits = sum(rule.limit is not None for rule in rules.values())
    compared = sum(len(before[name]) >= MIN_WINDOWS for name in rules)
    error_rate = FALSE_ALARMS * (line.window_length / _YEAR) / max(1, limits + compared)
    findings = []
    for name, rule in rules.items():
        values = _values(name, line.figures[name], scores)
        checks = (
            _beyond_limit(name, rule, values, error_rate),
            _changed(name, rule, line, before, error_rate),
        )
        findings += [check.finding for check in checks if check is not None]
    least = policy.gate.min_coverage
    if scores is not None and line.coverage < least:
        text = f"only {percent(line.coverage)} of the sample could be scored, and at least {percent(least)} must be."
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
    since = policy.monitor.level_since
    values: dict[str, list[float]] = {name: [] for name in line.figures}
    for then in past:
        is_accepted = since is None or then.time.date() >= since
        if (
            then.window is None
            or then.time >= line.time
            or then.window_length != line.window_length
            or not is_accepted
        ):
            continue
        for name, part in then.figures.items():
            is_comparable = name not in then.window.alerts and _is_same_judge(
                name, line, then
            )
            if name in values and is_comparable:
                values[name].append(part.value)
    return values


def _is_same_judge(name: str, line: RunLine, then: RunLine) -> bool:
    """Whether a figure was judged alike in both windows, if it is a metric."""
    version = line.versions.get(name)
    is_alike = (
        version is None
        or not is_judged(name, version)
        or line.judge_key == then.judge_key
    )
    return is_alike and version == then.versions.get(name)


def _allowed(scores: RunScores | None, policy: Policy) -> dict[str, Allowed]:
    """What is allowed of each figure, and by the policy's rules of each metric."""
    rules, system = policy.monitor, policy.system
    limits = {
        "slow": rules.max_slow,
        "errors": system.max_error_rate,
        "without_sources": rules.max_without_sources,
    }
    rise = LATENCY_RISE if system.max_latency_rise is None else system.max_latency_rise
    allowed = {name: Allowed(limits.get(name), rules.max_drop) for name in SHARES}
    allowed |= dict.fromkeys(LATENCIES, Allowed(None, rise))
    for rule in () if scores is None else resolve_rules(policy, scores).rules:
        if rule.slice is None:
            limit = None if rule.min is None else rule.direction.shown(rule.min)
            drop = (
                rule.max_drop
                if rule.written and rule.max_drop is not None
                else rules.max_drop
            )
            allowed[rule.metric] = Allowed(
                limit, drop, rule.lower_is_better, rule.floor_action, rule.drop_action
            )
    return allowed


def _values(
    name: str, part: FigurePart, scores: RunScores | None
) -> NDArray[np.float64]:
    """The values (n,) of single answers: 1 for those that a share counts, else 0; or
    the scores of a metric."""
    if scores is not None and name in scores.metrics:
        return np.array(list(scores.metrics[name].values.values()))
    hits = round(part.value * part.n) if name in SHARES else 0
    return np.repeat([1.0, 0.0], [hits, part.n - hits])


def _beyond_limit(
    name: str, rule: Allowed, values: NDArray[np.float64], error_rate: float
) -> Check | None:
    """A failure if the mean is shown to be beyond the limit; a warning if it is beyond
    it, or notable."""
    if rule.limit is None:
        return None
    interval = mean_interval(values, confidence=1.0 - 2.0 * error_rate)
    notable = min(rule.limit, NOTABLE_SHARE) if name in SHARES else rule.limit
    kind, side = CheckKind.FLOOR, "at least"
    is_shown, is_notable = interval.high < rule.limit, interval.estimate < notable
    if rule.rise_is_worse:
        kind, side = CheckKind.CEILING, "at most"
        is_shown, is_notable = interval.low > rule.limit, interval.estimate > notable
    if not (is_shown or is_notable):
        return None
    status, action = (
        (Status.FAIL, rule.limit_action)
        if is_shown
        else (Status.INCONCLUSIVE, Action.WARN)
    )
    text = f"{show_figure(name, interval.estimate)} of {counted(interval.n, 'answer')}, and {side} "
    return _check(name, kind, status, action, f"{text}{show_figure(name, rule.limit)}")


def _changed(
    name: str,
    rule: Allowed,
    line: RunLine,
    before: Mapping[str, Sequence[float]],
    error_rate: float,
) -> Check | None:
    """A failure if the newest window, or the mean of the newest two, is shown to be
    worse than those before."""
    part, sign = line.figures[name], 1.0 if rule.rise_is_worse else -1.0
    for newest in _LOOKS:
        place = len(before[name]) - newest + 1
        past = np.array(before[name][max(0, place - WINDOWS) : place])
        if len(past) < MIN_WINDOWS:
            break
        mean = float(np.mean([*before[name][place:], part.value]))
        predicted = prediction_interval(
            past, newest, confidence=1.0 - 2.0 * error_rate / len(_LOOKS)
        )
        level = predicted.estimate
        scale = level if name in LATENCIES else 1.0
        worse, limit = sign * (mean - level), rule.max_change * scale
        is_enough = worse > limit and worse * part.n >= MIN_SAMPLES * scale
        if is_enough and worse > predicted.high - level:
            kind, way = (
                (CheckKind.RISE, "more")
                if rule.rise_is_worse
                else (CheckKind.DROP, "less")
            )
            now = f"{show_figure(name, mean)} in {'this window' if newest == 1 else f'the last {newest} windows'}"
            then = f"{show_figure(name, level)} in the {len(past)} before"
            text = f"{now}, {then}; {show_figure(name, limit)} {way}"
            return _check(name, kind, Status.FAIL, rule.change_action, text)
    return None


def _check(
    name: str, kind: CheckKind, status: Status, action: Action, text: str
) -> Check:
    reason = f"{TITLES.get(name, name)}: {text} is allowed."
    return Check(f"{name}.{kind}", kind, status, action, reason, name)


def _verdict(findings: Sequence[Finding]) -> GateVerdict:
    """The verdict over `findings`, which are all that is not as it should be."""
    failures = [finding for finding in findings if finding.level is Level.FAILURE]
    blocking = failures or [
        finding for finding in findings if finding.level is Level.ERROR
    ]
    if blocking:
        more = (
            f" And {counted(len(blocking) - 1, 'more alert')}."
            if len(blocking) > 1
            else ""
        )
        status = Status.FAIL if failures else Status.ERROR
        return GateVerdict(status, f"{blocking[0].text}{more}", tuple(findings))
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    return GateVerdict(
        Status.PASS, f"no alert, {counted(warnings, 'warning')}.", tuple(findings)
    )
