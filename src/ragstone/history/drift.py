"""Is the main branch below its level? Compares a run with the runs before it, as checks of the gate.

A loss that is found is written into the line of its run. It lasts until recovery is shown or it is accepted, whatever
one later run shows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import change, counted, figure, listed, percent, score
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Status
from ragstone.history.codes import Compact, group_codes, sample_code, sample_codes
from ragstone.history.file import History
from ragstone.history.level import (
    LOOKED_BACK,
    Look,
    MetricPast,
    incomparable,
    is_seen,
    looks_before,
    newly_accepted,
    past_of,
    scores_of,
)
from ragstone.history.lines import BelowPart, RunLine
from ragstone.metrics.registry import is_relative
from ragstone.stats.drift import (
    AT_ONCE,
    BEFORE,
    Series,
    Step,
    change_points,
    mean_series,
    noise_of,
    recovery,
    step_between,
    steps,
)

_COMMON = 0.5
"""A run is comparable if it has at least this share of the samples of the newest run."""

_MIN_LOSS = 0.01
"""The smallest loss that a recovery is told from; at least half of `max_drift`, so that a lasting one can be."""

_NAMED = 0.9
"""The probability that the merges named as the cause have together."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The drift of a run: checks, sentences for the top and bottom of the report, and the losses for its line."""

    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    below: tuple[BelowPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """The runs one of which is the first after a loss, the oldest first, and the probability that it is one of them."""

    lines: tuple[RunLine, ...]
    share: float

    def __str__(self) -> str:
        """``the merge of 3f2a91c (92 %)``."""
        named, chance = [commit_of(line) for line in self.lines], percent(round(min(0.99, self.share), 2))
        if len(named) == 1:
            return f"the merge of {named[0]} ({chance})"
        return f"one of {len(named)} merges, {named[0]} to {named[-1]} ({chance})"


@dataclass(frozen=True, slots=True)
class _Asked:
    metric: str
    max_drift: float
    action: Action
    direction: Direction


@dataclass(frozen=True, slots=True)
class _Observed:
    """Runs and their scores, the newest last."""

    looks: tuple[Look, ...]
    series: Series

    def chances(self) -> dict[int, float]:
        """The probability of each of the newest runs, by index, to be the first after a loss."""
        near = np.arange(max(0, len(self.series) - LOOKED_BACK - 1), len(self.series))
        part = self.series.part(near)
        return dict(zip(near.tolist(), change_points(part, noise_of(part)).tolist(), strict=True))

    def cause(self) -> Cause:
        """The fewest runs that have a probability of `_NAMED` together."""
        chances, named, share = self.chances(), list[int](), 0.0
        for index in sorted(chances, key=lambda index: -chances[index]):
            named.append(index)
            share += chances[index]
            if share >= _NAMED:
                break
        return Cause(tuple(self.looks[index].line for index in sorted(named)), min(1.0, share))

    def first_after(self) -> int:
        """The likeliest first run after a loss, by index."""
        chances = self.chances()
        return max(chances, key=lambda index: chances[index])


@dataclass(frozen=True, slots=True)
class _Found:
    """The step of one metric, or of the mean of several, and whether it is a loss.

    `slowly`: the newest runs are below the first ones, but not below those just before them.
    """

    asked: tuple[_Asked, ...]
    observed: _Observed
    step: Step
    spared: float
    shown: bool
    slowly: bool = False

    @classmethod
    def of(cls, asked: Sequence[_Asked], observed: _Observed, spared: float, columns: int) -> _Found | None:
        """By the largest step that shows a loss, or else by the longest; None if the runs have no sample in common."""
        found = steps(observed.series, noise_of(observed.series))
        if not found:
            return None
        limit = float(np.mean([one.max_drift for one in asked]))
        shown = {
            (runs, first): step
            for (runs, first), step in found.items()
            if step.may_alarm and step.shows(limit, columns=columns, allowed=spared)
        }
        step = min(shown.values(), key=lambda one: one.change, default=found[max(found)])
        slowly = bool(shown) and all(first for _, first in shown)
        return cls(tuple(asked), observed, step, spared, bool(shown), slowly)

    @property
    def limit(self) -> float:
        return float(np.mean([one.max_drift for one in self.asked]))

    @property
    def excess(self) -> float:
        return self.step.change + self.spared

    def of_a_pull_request(self) -> _Found:
        """This loss where the newest run is that of a pull request, which blocks only if the loss begins with it."""
        newest = len(self.observed.looks) - 1
        if self.shown and not self.slowly and self.observed.first_after() == newest:
            return self
        return replace(self, asked=tuple(replace(asked, action=Action.WARN) for asked in self.asked))

    @property
    def is_part(self) -> bool:
        """Whether it is part of a loss of the mean."""
        return self.excess <= -self.limit / 2.0

    def check(self) -> Check:
        metric = self.asked[0].metric if len(self.asked) == 1 else None
        way = self.asked[0].direction if metric is not None else HIGHER
        subject = metric or f"the mean of {listed([_as_averaged(one) for one in self.asked])}"
        if self.shown:
            taken = f", of which {figure(self.spared)} was accepted" if self.spared else ""
            too_much = "no loss is allowed" if self.limit == 0.0 else f"max_drift is {self.limit:g}"
            due = "" if self.limit == 0.0 else ", and a loss that is shown fails from half of that on"
            figures = f"({_from_to(way, self.step)}{taken}); {too_much}{due}."
            if self.slowly:
                lost = f"{'risen by' if way.lower_is_better else 'lost'} {figure(-self.step.change, self.limit)}"
                reason = f"{subject} has {lost} since {_when(self.observed)} {figures}"
            else:
                first, places = self.observed.first_after(), self.observed.series.places
                when = since(self.observed.looks[first].line.commit, int(places[-1] - places[first]))
                cause = f"It came with {self.observed.cause()}."
                reason = f"{subject} is {_worse(way)} its level {when} {figures} {cause}"
        else:
            moved = change(way.shown_change(self.step.change))
            reason = f"{subject} has changed by {moved} since {_when(self.observed)}."
        status = Status.FAIL if self.shown else Status.PASS
        return _check(self.asked, metric, None, status, reason, self.step, self.spared)


def measure_drift(
    history: History,
    line: RunLine,
    scores: Compact,
    run: RunScores,
    policy: Policy,
    *,
    main: bool = True,
    decided: Sequence[Check] = (),
) -> Drift:
    """Compare the run of `line`, with per-sample `scores`, with the runs in `history`.

    `run` decides which rules of `policy` apply. `main` False: the run belongs to a pull request. Then the report says
    what the main branch has lost, and only a loss that begins with this run blocks. `decided` are the checks of a run
    that was decided: a drop that failed, or is not settled, is a loss from then on.
    """
    asked = _asked(policy, run)
    if not asked:
        return Drift()
    watch = _Watch(history, line, scores, run, policy, main=main)
    if not main:
        said = tuple(_notice(part) for one in asked for part in watch.past(one.metric).open)
        found = watch.scanned(asked)
        return replace(found, warnings=(*said, *found.warnings), below=())
    followed = [watch.followed(one, part) for one in asked for part in watch.past(one.metric).open]
    found = watch.scanned(asked)
    below = {(part.metric, part.slice): part for part in (*(part for _, part in followed), *found.below)}
    for check in decided:
        part = watch.suspected(check, below.get((check.metric or "", check.slice)))
        if part is not None:
            below[part.metric, part.slice] = part
    checks = [check for check, part in followed if part.until is None]
    if checks:
        found = replace(found, checks=tuple(check for check in found.checks if check.status is not Status.PASS))
    recovered = [check.reason for check, part in followed if part.until is not None]
    return Drift((*checks, *found.checks), found.warnings, (*recovered, *found.notes), tuple(below.values()))


def find_cause(history: History, metric: str, *, lower_is_better: bool) -> tuple[MetricPast, Cause | None]:
    """What the history says about `metric` as of its newest run, and the merge that brought a loss, if there was one.

    The cause is None with fewer than two comparable runs.
    """
    newest = next((line for line in reversed(history.gated) if metric in line.scores), None)
    if newest is None:
        return MetricPast(metric, (), (), 0), None
    looks = looks_before(history, newest)
    if not is_seen(looks, newest):
        looks = (*looks, Look(newest, history.samples[newest.samples or ""]))
    past = past_of(looks, newest, metric)
    if len(past.looks) < 2:
        return past, None
    chosen = range(max(0, min(past.since, len(past.looks) - 1) - LOOKED_BACK), len(past.looks))
    codes = sample_codes(past.looks[-1].samples)
    return past, _observed(past, past.looks, chosen, codes, None, lower=lower_is_better).cause()


class _Watch:
    """A run of the branch, or of a pull request, and the runs before it."""

    def __init__(
        self, history: History, line: RunLine, scores: Compact, run: RunScores, policy: Policy, *, main: bool
    ) -> None:
        self.main = main
        self.line = line.model_copy(update={"samples": scores.samples.key, "scores": dict(scores.scores)})
        self.codes = sample_codes(scores.samples)
        self.groups = group_codes(scores.samples)
        self.run = run
        self.policy = policy
        self.every = looks_before(history, line)
        self.newest = () if is_seen(self.every, line) else (Look(self.line, scores.samples),)
        known = set(self.codes)
        self.looks = tuple(
            look
            for look in self.every
            if look.samples.key == scores.samples.key
            or len(known.intersection(sample_codes(look.samples))) >= _COMMON * len(known)
        )
        self._pasts: dict[str, MetricPast] = {}

    def past(self, metric: str) -> MetricPast:
        if metric not in self._pasts:
            self._pasts[metric] = past_of(self.looks, self.line, metric)
        return self._pasts[metric]

    def followed(self, asked: _Asked, part: BelowPart) -> tuple[Check, BelowPart]:
        """The check of a loss that was not over, and what is known of it with this run."""
        past = self.past(asked.metric)
        observed, start = self._around(past, past.place(part), part.slice, asked.direction)
        noise = noise_of(observed.series)
        before, after = np.arange(start), np.arange(start, len(observed.series))
        step = step_between(observed.series, noise, before, after)
        merges = int(observed.series.places[-1] - observed.series.places[start])
        part = part.model_copy(update={"merges": merges})
        if step is None or not self.newest:
            return _below_check(asked, part, step, observed), part
        spared = newly_accepted(past, self.line, part.slice)
        if spared and step.change + spared > -asked.max_drift / 2.0:
            part = part.model_copy(update={"until": self.line.run})
        else:
            least = max(_MIN_LOSS, asked.max_drift / 2.0)
            evidence, first = recovery(observed.series, noise, start, max(part.loss, least))
            if first is not None and (merges > 1 or evidence >= AT_ONCE):
                part = part.model_copy(update={"until": observed.looks[first].line.run})
            elif evidence <= 0.0:
                part = part.model_copy(update={"loss": _loss(step, 0.0)})
            shown = part.shown or step.shows(asked.max_drift, columns=1, allowed=spared)
            part = part.model_copy(update={"evidence": round(evidence, 3), "shown": shown})
        return _below_check(asked, part, step, observed), part

    def suspected(self, check: Check, known: BelowPart | None) -> BelowPart | None:
        """The loss that a drop is which failed or is not settled; None for other checks."""
        if check.kind not in CHANGES or check.metric is None or check.status not in (Status.FAIL, Status.INCONCLUSIVE):
            return None
        if self.policy.gate.decision == "point":
            return None  # it compares plain means: each run is judged by itself
        shown = check.status is Status.FAIL
        if known is not None:  # it is not over, whatever else shows that it is
            return known.model_copy(update={"shown": shown or known.shown, "until": None})
        past = self.past(check.metric)
        if not past.sound or not self.newest:
            return None
        direction = LOWER if check.kind is CheckKind.RISE else HIGHER
        observed, start = self._around(past, len(past.looks), check.slice, direction)
        start = max(1, observed.first_after()) if start else start
        step = step_between(
            observed.series, noise_of(observed.series), np.arange(start), np.arange(start, len(observed.series))
        )
        return _part(check.metric, check.slice, observed, start, _loss(step, abs(check.estimate or 0.0)), shown=shown)

    def scanned(self, asked: Sequence[_Asked]) -> Drift:
        """The losses that are new with this run, as checks; one check that passes if there is none."""
        span, notes = self._span()
        recent = {look.line.run for look in span}
        groups: dict[tuple[str, ...], list[tuple[_Asked, _Observed]]] = {}
        for one in asked:
            past = self.past(one.metric)
            runs = (*past.looks, *self.newest)
            chosen = [index for index in past.sound if past.looks[index].line.run in recent]
            chosen = sorted({*chosen[:BEFORE], *chosen[-LOOKED_BACK:], len(runs) - 1}) if chosen else []
            if past.open or len(chosen) < 2 or self.policy.drift.anchor == "off":
                continue
            found = self._observed(past, chosen, None, one.direction)
            groups.setdefault(tuple(look.line.run for look in found.looks), []).append((one, found))
        if self.policy.drift.anchor == "off":
            return Drift()
        still = [one for one in asked if not self.past(one.metric).open]
        if not groups:
            why = self._why_anew(span, None, still)
            if why is not None:
                return Drift(warnings=(f"Drift is measured anew from this run on: {why}.",))
            none = "Drift is not measured yet: the history has no earlier run to compare with."
            return Drift(notes=(none,) if still else ())
        checks: list[Check] = []
        below: list[BelowPart] = []
        warnings: list[str] = []
        columns = len(still) + (len(still) > 1)
        for those in groups.values():
            decided, parts = self._losses(those, columns)
            checks += decided
            below += parts
            looks = those[0][1].looks
            why = self._why_anew(span, looks[0], [one for one, _ in those])
            if why is not None and len(looks) <= BEFORE:
                warnings.append(f"Drift is measured anew from {_when(those[0][1])}: {why}.")
        return Drift(tuple(_passing_as_one(checks)), tuple(dict.fromkeys(warnings)), tuple(notes), tuple(below))

    def _losses(self, those: Sequence[tuple[_Asked, _Observed]], columns: int) -> tuple[list[Check], list[BelowPart]]:
        """The checks of metrics with the same runs, and of their mean; and the losses that are shown."""
        spares = [newly_accepted(self.past(one.metric), self.line) for one, _ in those]
        each = (
            _Found.of([one], observed, spare, columns) for (one, observed), spare in zip(those, spares, strict=True)
        )
        found = [one for one in each if one is not None]
        if len(found) > 1:
            mean = _Observed(those[0][1].looks, mean_series([one.observed.series for one in found]))
            whole = _Found.of([one.asked[0] for one in found], mean, float(np.mean(spares)), columns)
            if whole is not None and whole.shown:
                # Its parts are named, so that they can be investigated or accepted.
                lowest = min(one.excess for one in found)
                found = [replace(one, shown=one.shown or one.is_part or one.excess == lowest) for one in found]
            found += [whole] if whole is not None else []
        if not self.main:
            found = [one.of_a_pull_request() for one in found]
        parts = []
        for one in found:
            if one.shown and len(one.asked) == 1:
                start = max(1, one.observed.first_after())
                parts.append(_part(one.asked[0].metric, None, one.observed, start, _loss(one.step, 0.0), shown=True))
        return [one.check() for one in found], parts

    def _around(self, past: MetricPast, since: int, slice_: str | None, direction: Direction) -> tuple[_Observed, int]:
        """The healthy runs before the run `since` and all from it on, and the place of `since` among them."""
        before = [index for index in past.sound if index < since] or [i for i, ok in enumerate(past.healthy) if ok]
        before = [index for index in before if index < since][-LOOKED_BACK:]
        after = range(since, len(past.looks) + len(self.newest))
        return self._observed(past, [*before, *after[-LOOKED_BACK:]], slice_, direction), len(before)

    def _observed(self, past: MetricPast, chosen: Sequence[int], slice_: str | None, direction: Direction) -> _Observed:
        codes, groups = self.codes, self.groups
        if slice_ is not None:
            tagged = (name for name, facts in self.run.samples.items() if slice_ in facts.tags)
            members = {sample_code(name, self.run.samples[name].content_hash) for name in tagged}
            kept = [place for place, code in enumerate(codes) if code in members]
            codes, groups = [codes[place] for place in kept], groups and [groups[place] for place in kept]
        runs = (*past.looks, *self.newest)
        return _observed(past, runs, chosen, codes, groups, lower=direction.lower_is_better)

    def _span(self) -> tuple[list[Look], list[str]]:
        """The runs from which the anchor is chosen, the oldest first."""
        rules, notes = self.policy.drift, list[str]()
        if rules.anchor == "release":
            released = [index for index, look in enumerate(self.every) if look.line.release is not None]
            if released:
                return list(self.every[released[-1] :]), []
            notes = [
                f"The history has no release, so drift is measured from the oldest run of the last {rules.days} days."
            ]
        since = self.line.time - timedelta(days=rules.days)
        return [look for look in self.every if look.line.time >= since], notes

    def _why_anew(self, span: Sequence[Look], anchor: Look | None, asked: Sequence[_Asked]) -> str | None:
        """Why drift is not measured from the first healthy run of `span`; None if it is."""
        before = list(span) if anchor is None else list(span[: span.index(anchor)] if anchor in span else span)
        for look in reversed(before):
            for one in asked:
                why = incomparable(look.line, self.line, one.metric)
                if why is None and look not in self.looks:
                    why = "fewer than half of the current samples were in the golden set before"
                if why is not None and look.line.eligible:
                    return why
        return None


def _asked(policy: Policy, run: RunScores) -> list[_Asked]:
    """The requirements on each metric that the policy has a rule for, over all samples."""
    found = []
    for rule in resolve_rules(policy, run).rules:
        scores = run.metrics.get(rule.metric)
        if rule.slice is None and scores is not None and scores.values and not is_relative(rule.metric):
            own = policy.metrics[rule.key].max_drift if rule.key in policy.metrics else None
            action = Action.WARN if Action.WARN in (policy.drift.action, rule.drop_action) else Action.BLOCK
            found.append(_Asked(rule.metric, policy.drift.max_drift if own is None else own, action, rule.direction))
    return found


def _observed(
    past: MetricPast,
    runs: Sequence[Look],
    chosen: Sequence[int],
    codes: Sequence[str],
    groups: Sequence[str] | None,
    *,
    lower: bool,
) -> _Observed:
    """The runs `chosen` of `runs`, by index, with their scores of the samples `codes`, where more is better."""
    looks = tuple(runs[index] for index in chosen)
    scores = scores_of(looks, codes, past.metric)
    healthy = [index >= len(past.healthy) or past.healthy[index] for index in chosen]
    return _Observed(
        looks,
        Series(
            1.0 - scores if lower else scores,
            np.array(chosen, dtype=np.int64),
            np.array(healthy, dtype=np.bool_),
            None if groups is None else np.unique(groups, return_inverse=True)[1],
        ),
    )


def _part(metric: str, slice_: str | None, observed: _Observed, start: int, loss: float, *, shown: bool) -> BelowPart:
    """What the line of the newest run says of a loss since the run `start`, by index."""
    places, first = observed.series.places, observed.looks[start].line
    return BelowPart(
        metric=metric,
        slice=slice_,
        since=first.run,
        commit=first.commit,
        loss=loss,
        shown=shown,
        merges=int(places[-1] - places[start]),
    )


def _loss(step: Step | None, known: float) -> float:
    """The size of a loss, at most 1, by the runs since or by what is known of it."""
    return round(min(1.0, max(known, 0.0 if step is None else -step.change)), 5)


def _below_check(asked: _Asked, part: BelowPart, step: Step | None, observed: _Observed) -> Check:
    """The check of a loss that lasts, or passes because it is over."""
    title = part.metric if part.slice is None else f"{part.metric} on '{part.slice}'"
    way, status = asked.direction, Status.FAIL if part.shown else Status.INCONCLUSIVE
    when = since(part.commit, part.merges)
    figures = "" if step is None else f" ({_from_to(way, step)})"
    if part.until is not None:
        status, reason = Status.PASS, f"{title} was {_worse(way)} its level {when}, and is back at it."
    elif part.shown:
        reason = (
            f"{title} is {_worse(way)} its level {when}{figures}; main stays red until recovery is shown or the loss "
            f"is accepted. It came with {observed.cause()}."
        )
    else:
        reason = f"{title} may be {_worse(way)} its level {when}{figures}; later runs of main will settle it."
    return _check((asked,), part.metric, part.slice, status, reason, step)


def _check(
    asked: Sequence[_Asked],
    metric: str | None,
    slice_: str | None,
    status: Status,
    reason: str,
    step: Step | None,
    spared: float = 0.0,
) -> Check:
    way = asked[0].direction if metric is not None else HIGHER
    name = "drift" if metric is None else f"{metric}.drift"
    return Check(
        name=name if slice_ is None else f"{slice_}/{name}",
        kind=CheckKind.DRIFT,
        status=status,
        action=Action.BLOCK if any(one.action is Action.BLOCK for one in asked) else Action.WARN,
        reason=reason,
        metric=metric,
        slice=slice_,
        estimate=None if step is None else step.change + spared,
        threshold=0.0 - float(np.mean([one.max_drift for one in asked])),
        current=None if step is None else way.shown(step.level),
        baseline=None if step is None else way.shown(step.level - step.change),
        n=0 if step is None else step.n,
    )


def _notice(part: BelowPart) -> str:
    """What a pull request says of a loss on the main branch."""
    title = part.metric if part.slice is None else f"{part.metric} on '{part.slice}'"
    may = "is" if part.shown else "may be"
    return (
        f"The main branch {may} {figure(part.loss)} below its level of {title} {since(part.commit, part.merges)}. "
        "This run is compared with the main branch as it is now, and does not fail for that."
    )


def _worse(way: Direction) -> str:
    return "above" if way.lower_is_better else "below"


def _from_to(way: Direction, step: Step) -> str:
    then, now = way.shown(step.level - step.change), way.shown(step.level)
    return f"{score(then)} → {score(now)} on {counted(step.n, 'sample')} in common"


def since(commit: str | None, merges: int) -> str:
    """``since 3f2a91c, 4 merges ago``."""
    named = commit[:7] if commit else "a run of no known commit"
    return f"since {named}, {counted(merges, 'merge')} ago" if merges else f"since {named}, the newest merge"


def commit_of(line: RunLine) -> str:
    """The commit of a run, or else its date."""
    return line.commit[:7] if line.commit else f"{line.time:%Y-%m-%d %H:%M}"


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


def _when(observed: _Observed) -> str:
    """``2 September 2026 (commit abc1234, 24 main runs ago)``, of the first run."""
    anchor, places = observed.looks[0].line, observed.series.places
    named = f"release {anchor.release}" if anchor.release else f"commit {anchor.commit[:7]}" if anchor.commit else ""
    ago = f"{counted(int(places[-1] - places[0]), 'main run')} ago"
    return f"{anchor.time.day} {anchor.time:%B %Y} ({', '.join(filter(None, (named, ago)))})"
