"""What is found in a window: limits that are shown to be exceeded, and changes from the windows before it.

All checks of a window share one error rate, so that steady windows raise about FALSE_ALARMS false alarms a year. A mean
is beyond its limit if its interval is as a whole (exact binomial for a share, else Gaffke's bound). A figure has
changed if Student's prediction from the last windows excludes the newest one, or the mean of the newest two, and if it
is further off than is allowed. `bench/monitoring.py` simulates it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from ragstone.gate.verdict import MIN_SAMPLES, Action, Check, CheckKind, GateVerdict, Status
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
"""By how much slower answers may get, relative to the last windows, unless [system] in the policy says it."""

NOTABLE_SHARE = 0.01
"""A share with a limit is a warning from here on."""

_LOOKS = (1, 2)
"""So many of the newest windows are compared with those before them."""

_YEAR = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure or a metric of a window. `values` (n,) are those of single answers, if it has a `limit`.

    `before` are its values in the windows that it is compared with, the oldest first. It may become worse by
    `max_change`, which is relative for latencies.
    """

    name: str
    part: FigurePart
    before: tuple[float, ...]
    max_change: float
    rise_is_worse: bool = True
    limit: float | None = None
    values: NDArray[np.float64] | None = None
    limit_action: Action = Action.BLOCK
    change_action: Action = Action.BLOCK

    def check(self, kind: CheckKind, status: Status, action: Action, bound: float, text: str) -> Check:
        title, value = TITLES.get(self.name, self.name), self.part.value
        reason = f"{title}: {text} is allowed."
        return Check(
            f"{self.name}.{kind}",
            kind,
            status,
            action,
            reason,
            self.name,
            estimate=value,
            threshold=bound,
            n=self.part.n,
        )


def judge_window(line: RunLine, scores: RunScores | None, past: Sequence[RunLine], policy: Policy) -> GateVerdict:
    """The verdict on the window of `line`, with the `scores` of its sample, if one was judged. Pure.

    `past` are the windows of the history.
    """
    windows = comparable_windows(line, past, policy)
    quantities = [*_figures(line, windows, policy)]
    checks: list[Check] = []
    if scores is not None:
        quantities += _metrics(line, scores, windows, policy)
        checks += _coverage(line, policy)
    limits = sum(quantity.limit is not None for quantity in quantities)
    compared = sum(len(quantity.before) >= MIN_WINDOWS for quantity in quantities)
    error_rate = FALSE_ALARMS * (line.window_length / _YEAR) / max(1, limits + compared)
    for quantity in quantities:
        checks += [*_beyond_limit(quantity, error_rate), *_changed(quantity, error_rate)]
    findings = [check.finding for check in checks]
    if line.figures["questions"].value == 0.0:
        text = "No question was logged: is the application up, and does this job read its log?"
        findings.append(Finding("questions", Level.WARNING, text))
    if len(windows) < MIN_WINDOWS:
        text = f"Nothing is compared with earlier windows yet: there are {len(windows)} of at least {MIN_WINDOWS}."
        findings.append(Finding("windows", Level.NOTE, text))
    return _verdict(findings)


def comparable_windows(line: RunLine, past: Sequence[RunLine], policy: Policy) -> list[RunLine]:
    """The windows before that of `line` that are as long, since the level that is accepted; the oldest first."""
    since = policy.monitor.level_since
    earlier = (then for then in past if then.time < line.time and then.window_length == line.window_length)
    return [then for then in earlier if since is None or then.time.date() >= since]


def values_before(name: str, line: RunLine, windows: Sequence[RunLine]) -> tuple[float, ...]:
    """The values of a figure or metric in those of `windows` that had no alert for it, by the same judge."""
    values = []
    for then in windows:
        is_same_judge = name not in line.metrics or _is_same_judge(name, line, then)
        is_alert = then.window is not None and name in then.window.alerts
        part = then.figures.get(name)
        if part is not None and is_same_judge and not is_alert:
            values.append(part.value)
    return tuple(values)


def _is_same_judge(metric: str, line: RunLine, then: RunLine) -> bool:
    version = line.versions.get(metric)
    return version == then.versions.get(metric) and (line.judge_key == then.judge_key or not is_judged(metric, version))


def _figures(line: RunLine, windows: Sequence[RunLine], policy: Policy) -> Iterator[Quantity]:
    rules, system = policy.monitor, policy.system
    limits = {"slow": rules.max_slow, "errors": system.max_error_rate, "without_sources": rules.max_without_sources}
    rise = LATENCY_RISE if system.max_latency_rise is None else system.max_latency_rise
    for name in (*SHARES, *LATENCIES):
        if name not in line.figures:
            continue
        part, before = line.figures[name], values_before(name, line, windows)
        if name in LATENCIES:
            yield Quantity(name, part, before, rise)
        else:
            hits = round(part.value * part.n)
            values = np.repeat([1.0, 0.0], [hits, part.n - hits])
            yield Quantity(name, part, before, rules.max_drop, limit=limits.get(name), values=values)


def _metrics(line: RunLine, scores: RunScores, windows: Sequence[RunLine], policy: Policy) -> Iterator[Quantity]:
    """The metrics of the sample, with the floors of the policy, and the drops that it writes down."""
    for rule in resolve_rules(policy, scores).rules:
        name = rule.metric
        if name not in line.figures or rule.slice is not None:
            continue
        yield Quantity(
            name,
            line.figures[name],
            values_before(name, line, windows),
            rule.max_drop if rule.written and rule.max_drop is not None else policy.monitor.max_drop,
            rise_is_worse=rule.lower_is_better,
            limit=None if rule.min is None else rule.direction.shown(rule.min),
            values=np.array(list(scores.scores_of(name).values.values())),
            limit_action=rule.floor_action,
            change_action=rule.drop_action,
        )


def _beyond_limit(quantity: Quantity, error_rate: float) -> Iterator[Check]:
    """A failure if the mean is shown to be beyond the limit; a warning if it is beyond it, or notable."""
    limit, values, value = quantity.limit, quantity.values, quantity.part.value
    if limit is None or values is None:
        return
    interval = mean_interval(values, confidence=1.0 - 2.0 * error_rate)
    kind, side = CheckKind.FLOOR, "at least"
    is_shown, is_notable = interval.high < limit, value < limit
    if quantity.rise_is_worse:
        kind, side = CheckKind.CEILING, "at most"
        notable = min(limit, NOTABLE_SHARE) if quantity.name in SHARES else limit
        is_shown, is_notable = interval.low > limit, value > notable
    if is_shown or is_notable:
        status, action = (Status.FAIL, quantity.limit_action) if is_shown else (Status.INCONCLUSIVE, Action.WARN)
        now = f"{show_figure(quantity.name, value)} of {counted(quantity.part.n, 'answer')}"
        yield quantity.check(kind, status, action, limit, f"{now}, and {side} {show_figure(quantity.name, limit)}")


def _changed(quantity: Quantity, error_rate: float) -> Iterator[Check]:
    """A failure if the newest window, or the mean of the newest two, is shown to be worse than those before."""
    for newest in _LOOKS:
        place = len(quantity.before) - newest + 1
        before = np.array(quantity.before[max(0, place - WINDOWS) : place])
        if len(before) < MIN_WINDOWS:
            return
        mean = float(np.mean([*quantity.before[place:], quantity.part.value]))
        predicted = prediction_interval(before, newest, confidence=1.0 - 2.0 * error_rate / len(_LOOKS))
        level = predicted.estimate
        scale = level if quantity.name in LATENCIES else 1.0
        change = mean - level if quantity.rise_is_worse else level - mean
        is_shown = change > predicted.high - level and change > quantity.max_change * scale
        if is_shown and change * quantity.part.n >= MIN_SAMPLES * scale:
            kind, way = (CheckKind.RISE, "more") if quantity.rise_is_worse else (CheckKind.DROP, "less")
            now, then, allowed = (show_figure(quantity.name, x) for x in (mean, level, quantity.max_change * scale))
            windows = "in this window" if newest == 1 else f"in the last {newest} windows"
            text = f"{now} {windows}, {then} in the {len(before)} before; {allowed} {way}"
            yield quantity.check(kind, Status.FAIL, quantity.change_action, quantity.max_change, text)
            return


def _coverage(line: RunLine, policy: Policy) -> Iterator[Check]:
    """An error if the judge could score too few of the sample."""
    least = policy.gate.min_coverage
    if line.coverage < least:
        reason = f"only {percent(line.coverage)} of the sample could be scored, and at least {percent(least)} must be."
        yield Check("coverage", CheckKind.COVERAGE, Status.ERROR, Action.BLOCK, reason)


def _verdict(findings: Sequence[Finding]) -> GateVerdict:
    """The verdict over `findings`, which are all that is not as it should be."""
    for level, status in ((Level.FAILURE, Status.FAIL), (Level.ERROR, Status.ERROR)):
        texts = [finding.text for finding in findings if finding.level is level]
        if texts:
            more = f" And {counted(len(texts) - 1, 'more alert')}." if len(texts) > 1 else ""
            return GateVerdict(status, f"{texts[0]}{more}", tuple(findings))
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    return GateVerdict(Status.PASS, f"no alert, {counted(warnings, 'warning')}.", tuple(findings))
