"""Slow drift: compares a run with the first comparable runs since the anchor, as checks of the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from ragstone.formatting import change, counted, figure, listed, score
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import HIGHER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.codes import Compact, decode, group_codes, sample_codes
from ragstone.history.file import History, same_run
from ragstone.history.lines import RunLine, SamplesLine
from ragstone.metrics.registry import is_relative
from ragstone.run.scores import RunScores
from ragstone.stats.drift import FIRST, LEVEL, Loss, find_losses

Floats = NDArray[np.float64]

_COMMON = 0.5
"""A run is comparable if it has at least this share of the samples of the newest run."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The drift of a run: checks, and sentences for the top and bottom of the report."""

    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    metric: str
    max_drift: float
    action: Action
    direction: Direction


@dataclass(frozen=True, slots=True)
class _Observed:
    """A run's line, and the samples of its scores."""

    line: RunLine
    samples: SamplesLine

    @classmethod
    def of(cls, line: RunLine, samples: Mapping[str, SamplesLine]) -> _Observed | None:
        named = samples.get(line.samples or "")
        return None if named is None else cls(line, named)


def measure_drift(
    history: History, line: RunLine, scores: Compact, run: RunScores, policy: Policy, *, main: bool = True
) -> Drift:
    """Compare the run of `line`, with per-sample `scores`, with the runs in `history`.

    `run` decides which rules of `policy` apply. `main` False: the run belongs to a pull request; if the newest run of
    the main branch already raises an alarm, the report says so, and drift does not block.
    """
    asked = _asked(policy, run)
    if policy.drift.anchor == "off" or not asked:
        return Drift()
    newest = _Observed(
        line.model_copy(update={"samples": scores.samples.key, "scores": dict(scores.scores)}), scores.samples
    )
    observed = (_Observed.of(one, history.samples) for one in history.runs if not same_run(one, line))
    earlier = [one for one in observed if one is not None]
    found = _measured(earlier, newest, asked, policy)
    if main or not any(check.status is Status.FAIL for check in found.checks) or len(earlier) < 2:
        return found
    own = _measured(earlier[:-1], earlier[-1], asked, policy)
    alarms = [check for check in own.checks if check.status is Status.FAIL]
    if not alarms:
        return found
    said = (
        f"The main branch itself has drifted, so drift does not block this pull request: in its newest run "
        f"{alarms[0].reason}"
    )
    checks = tuple(replace(check, action=Action.WARN) for check in found.checks)
    return Drift(checks, (said, *found.warnings), found.notes)


def _asked(policy: Policy, run: RunScores) -> list[_Asked]:
    """The requirements on each metric that the policy has a rule for, over all samples."""
    return [
        _Asked(rule.metric, _max_drift(policy, rule), _action(policy, rule), rule.direction)
        for rule in resolve_rules(policy, run).rules
        if rule.slice is None and rule.metric in run.metrics and run.metrics[rule.metric].values
        if not is_relative(rule.metric)
    ]


def _max_drift(policy: Policy, rule: Rule) -> float:
    own = policy.metrics[rule.key].max_drift if rule.key in policy.metrics else None
    return policy.drift.max_drift if own is None else own


def _action(policy: Policy, rule: Rule) -> Action:
    return Action.WARN if Action.WARN in (policy.drift.action, rule.drop_action) else Action.BLOCK


def _measured(earlier: Sequence[_Observed], newest: _Observed, asked: Sequence[_Asked], policy: Policy) -> Drift:
    span, notes = _span(earlier, newest.line.time, policy)
    comparable: dict[tuple[str, ...], tuple[list[_Observed], list[_Asked]]] = {}
    for one in asked:
        runs = [run for run in span if _incomparable(run, newest, one.metric) is None]
        while runs and not runs[0].line.eligible:
            del runs[0]
        if runs:
            comparable.setdefault(tuple(run.line.run for run in runs), (runs, []))[1].append(one)
    if not comparable:
        why = _why_anew(span, None, newest, asked)
        if why is None:
            return Drift(notes=("Drift is not measured yet: the history has no earlier run to compare with.",))
        return Drift(warnings=(f"Drift is measured anew from this run on: {why}.",))
    checks: list[Check] = []
    warnings: list[str] = []
    for runs, those in comparable.values():
        checks += _checks(runs, newest, those, families=len(comparable))
        why = _why_anew(span, runs[0], newest, those)
        if why is not None and len(runs) < FIRST:
            warnings.append(f"Drift is measured anew from {_when(runs)}: {why}.")
    return Drift(tuple(_passing_as_one(checks)), tuple(dict.fromkeys(warnings)), tuple(notes))


def _span(earlier: Sequence[_Observed], now: datetime, policy: Policy) -> tuple[list[_Observed], list[str]]:
    """The runs from which the anchor is chosen, the oldest first."""
    if policy.drift.anchor == "release":
        released = [index for index, one in enumerate(earlier) if one.line.release is not None]
        if released:
            return list(earlier[released[-1] :]), []
    since = now - timedelta(days=policy.drift.days)
    notes = []
    if policy.drift.anchor == "release":
        notes = [
            f"The history has no release, so drift is measured from the oldest run of the last "
            f"{policy.drift.days} days."
        ]
    return [one for one in earlier if one.line.time >= since], notes


def _incomparable(run: _Observed, newest: _Observed, metric: str) -> str | None:
    """Why the scores of `metric` in the two runs can't be compared; None if they can."""
    line, now = run.line, newest.line
    if line.part != now.part:
        return "earlier runs evaluated another half of the system"
    if metric not in line.scores:
        return f"earlier runs have no scores for {metric}"
    if line.versions.get(metric) != now.versions.get(metric):
        return f"{metric} is version {now.versions.get(metric)} now, and was {line.versions.get(metric)}"
    if line.judge_key != now.judge_key and is_judged(metric, now.versions.get(metric)):
        if line.judge == now.judge:
            return f"the prompts or parameters of the judge ({now.judge}) changed"
        return f"the judge changed from {line.judge} to {now.judge}"
    if run.samples.key != newest.samples.key:
        common = set(sample_codes(run.samples)) & set(sample_codes(newest.samples))
        if len(common) < _COMMON * len(sample_codes(newest.samples)):
            return "fewer than half of the current samples were in the golden set before"
    return None


def _why_anew(
    span: Sequence[_Observed], anchor: _Observed | None, newest: _Observed, asked: Sequence[_Asked]
) -> str | None:
    """Why drift is not measured from the first sound run of `span`; None if it is."""
    before = []
    for run in span:
        if run is anchor:
            break
        before.append(run)
    for run in reversed(before):
        for one in asked:
            why = _incomparable(run, newest, one.metric)
            if why is not None and run.line.eligible:
                return why
    return None


def _checks(runs: Sequence[_Observed], newest: _Observed, asked: Sequence[_Asked], *, families: int) -> Iterator[Check]:
    """One check for each metric, and one for the mean over them."""
    names = [one.metric for one in asked]
    series = _series([*runs, newest], newest.samples, names)
    lower = [one.direction.lower_is_better for one in asked]
    series[:, :, lower] = 1.0 - series[:, :, lower]
    allowed = np.array([_accepted(runs, newest, name) for name in names])
    groups = group_codes(newest.samples)
    losses = find_losses(
        series,
        shift=np.array([one.max_drift for one in asked]),
        allowed=allowed,
        sound=np.array([run.line.eligible for run in runs] + [True]),
        groups=None if groups is None else np.unique(groups, return_inverse=True)[1],
        level=LEVEL / families,
    )
    shown = any(loss.found for loss in losses if loss.column is None)
    for loss in losses:
        if shown and loss.column is not None and loss.excess <= -asked[loss.column].max_drift / 2.0:
            # Part of a shown loss of the mean: named, so that it can be investigated or accepted.
            loss = replace(loss, found=True)
        those = list(asked) if loss.column is None else [asked[loss.column]]
        spared = float(allowed.mean() if loss.column is None else allowed[loss.column])
        yield _check(loss, those, spared, runs)


def _check(loss: Loss, asked: Sequence[_Asked], spared: float, runs: Sequence[_Observed]) -> Check:
    limit = float(np.mean([one.max_drift for one in asked]))
    metric = asked[0].metric if loss.column is not None else None
    way = asked[0].direction if metric is not None else HIGHER
    now, then = way.shown(loss.newest), way.shown(loss.newest - loss.change)
    subject = metric or f"the mean of {listed([_as_averaged(one) for one in asked])}"
    status = Status.FAIL if loss.found else Status.PASS
    if loss.found:
        taken = f" (of which {figure(spared)} was accepted)" if spared else ""
        too_much = "no loss is allowed" if limit == 0.0 else f"max_drift is {limit:g}"
        due = "" if limit == 0.0 else ", and a loss that is shown fails from half of that on"
        reason = (
            f"{subject} has {'risen by' if way.lower_is_better else 'lost'} {figure(-loss.change, limit)}{taken} since "
            f"{_when(runs)}, from {score(then)} to {score(now)} on {counted(loss.n, 'sample')} in common; "
            f"{too_much}{due}."
        )
    else:
        reason = f"{subject} has changed by {change(way.shown_change(loss.change))} since {_when(runs)}."
    return Check(
        name=f"{metric}.drift" if metric else "drift",
        kind=CheckKind.DRIFT,
        status=status,
        action=Action.BLOCK if any(one.action is Action.BLOCK for one in asked) else Action.WARN,
        reason=reason,
        metric=metric,
        estimate=loss.excess,
        threshold=0.0 - limit,
        current=now,
        baseline=then,
        n=loss.n,
    )


def _as_averaged(one: _Asked) -> str:
    """The metric as it enters a mean: where less is better, 1 − score."""
    return f"1 − {one.metric}" if one.direction.lower_is_better else one.metric


def _passing_as_one(checks: Sequence[Check]) -> list[Check]:
    """The alarms; or, if there are none, one check with the largest loss."""
    alarms = [check for check in checks if check.status is Status.FAIL]
    if alarms or not checks:
        return alarms
    lowest = min(checks, key=lambda check: check.estimate or 0.0)
    action = Action.BLOCK if any(check.action is Action.BLOCK for check in checks) else Action.WARN
    return [replace(lowest, name="drift", metric=None, action=action, reason=f"no slow loss is shown: {lowest.reason}")]


def _accepted(runs: Sequence[_Observed], newest: _Observed, metric: str) -> float:
    """The total of the drops of `metric` accepted after the anchor, each counted once."""
    anchor = {one.id for one in runs[0].line.accepted}
    taken = {
        one.id: one.drop
        for run in (*runs[1:], newest)
        for one in run.line.accepted
        if one.metric == metric and one.slice is None and one.id not in anchor
    }
    return sum(taken.values())


def _series(runs: Sequence[_Observed], samples: SamplesLine, metrics: Sequence[str]) -> Floats:
    """(runs, samples, metrics): the scores for the samples of the newest run, NaN if missing."""
    wanted = sample_codes(samples)
    series = np.full((len(runs), len(wanted), len(metrics)), np.nan)
    places: dict[str, tuple[list[int], list[int]]] = {}
    for t, run in enumerate(runs):
        key = run.samples.key
        if key not in places:
            index = {code: place for place, code in enumerate(sample_codes(run.samples))}
            pairs = [(here, index[code]) for here, code in enumerate(wanted) if code in index]
            places[key] = ([here for here, _ in pairs], [there for _, there in pairs])
        here, there = places[key]
        for j, metric in enumerate(metrics):
            if metric in run.line.scores:
                series[t, here, j] = decode(run.line.scores[metric])[there]
    return series


def _when(runs: Sequence[_Observed]) -> str:
    """``2 September 2026 (commit abc1234, 24 main runs ago)``."""
    anchor = runs[0].line
    named = f"release {anchor.release}" if anchor.release else f"commit {anchor.commit[:7]}" if anchor.commit else ""
    ago = f"{counted(len(runs), 'main run')} ago"
    return f"{anchor.time.day} {anchor.time:%B %Y} ({', '.join(filter(None, (named, ago)))})"
