"""Is the main branch below its level? Compares a run with the runs before it, as checks of the gate.

A loss is written into the line of its run. The newest run alone opens a suspicion, which is inconclusive; a second run
turns it red. It lasts until recovery is shown or it is accepted, whatever one later run shows by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import change, counted, figure, listed, percent, score
from ragstone.gate.direction import HIGHER, Direction
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
from ragstone.stats.steps import BEFORE, LEVEL, Series, Step, mean_series, recovered_since

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
class _Rule:
    """How much of a metric may be lost over the runs."""

    metric: str
    max_drift: float
    action: Action
    direction: Direction


@dataclass(frozen=True, slots=True)
class _Column:
    """A metric, or the mean of several, in the runs that are compared, the newest last, where more is better.

    `places` are the places of the runs among all comparable ones; `allowed` is the loss that was accepted.
    """

    rules: tuple[_Rule, ...]
    looks: tuple[Look, ...]
    places: tuple[int, ...]
    series: Series
    allowed: float = 0.0
    slice: str | None = None

    @property
    def metric(self) -> str | None:
        """None for a mean."""
        return self.rules[0].metric if len(self.rules) == 1 else None

    @property
    def direction(self) -> Direction:
        """Of a mean, more is better."""
        return self.rules[0].direction if len(self.rules) == 1 else HIGHER

    @property
    def limit(self) -> float:
        return float(np.mean([rule.max_drift for rule in self.rules]))

    @property
    def newest(self) -> int:
        """The index of the newest run."""
        return len(self.looks) - 1

    @property
    def names(self) -> tuple[str, ...]:
        """The runs, by name."""
        return tuple(look.line.run for look in self.looks)

    @property
    def title(self) -> str:
        if self.metric is None:
            averaged = (f"1 − {rule.metric}" if rule.direction.lower_is_better else rule.metric for rule in self.rules)
            return f"the mean of {listed(list(averaged))}"
        return self.metric if self.slice is None else f"{self.metric} on '{self.slice}'"

    def merges_since(self, run: int) -> int:
        """The number of runs after `run`, by index."""
        return self.places[-1] - self.places[run]

    def chances(self) -> dict[int, float]:
        """The probability of each of the newest runs, by index, to be the first after a loss; the likeliest first."""
        oldest = max(0, self.newest - LOOKED_BACK)
        near = replace(self.series, scores=self.series.scores[oldest:])
        chances = enumerate(near.first_run_chances().tolist(), start=oldest)
        return dict(sorted(chances, key=lambda item: -item[1]))

    def cause(self) -> Cause:
        """The fewest runs that have a probability of `_NAMED` together."""
        named, share = list[int](), 0.0
        for index, chance in self.chances().items():
            named.append(index)
            share += chance
            if share >= _NAMED:
                break
        return Cause(tuple(self.looks[index].line for index in sorted(named)), min(1.0, share))

    def start_of_loss(self, level: float) -> int | None:
        """The likeliest first run of a loss that the newest runs show at the error rate `level`, by index."""
        if any(step.shows(self.limit, level) for step in self.series.steps(self.allowed)):
            return next(iter(self.chances()))
        return None

    def shows_loss_since(self, start: int, level: float) -> bool:
        """Whether a loss since the run `start` is shown at the error rate `level`."""
        return any(step.shows(self.limit, level) for step in self.series.steps_at(start, self.allowed))

    def step_at(self, start: int) -> Step | None:
        """The largest step to the runs since `start`."""
        steps = self.series.steps_at(start, self.allowed)
        return min(steps, key=lambda step: step.change, default=None)

    def excess_at(self, start: int) -> float:
        """The change beyond what is allowed since the run `start`."""
        step = self.step_at(start)
        return 0.0 if step is None else step.excess

    def part(self, start: int, *, shown: bool, loss: float, until: str | None = None) -> BelowPart:
        """What the line of the newest run says of a loss since the run `start`."""
        first = self.looks[start].line
        return BelowPart(
            metric=self.rules[0].metric,
            slice=self.slice,
            since=first.run,
            commit=first.commit,
            loss=round(min(1.0, max(0.0, loss)), 5),
            shown=shown,
            merges=self.merges_since(start),
            until=until,
        )

    def loss_check(self, start: int, status: Status) -> Check:
        """The check of a loss since the run `start`; it passes if it is over."""
        step, beyond = self.step_at(start), self.direction.beyond
        when = since(self.looks[start].line.commit, self.merges_since(start))
        if status is Status.PASS:
            return self._check(status, f"{self.title} was {beyond} its level {when}, and is back at it.", step)
        figures = "" if step is None else f" ({self._from_to(step)})"
        if status is Status.INCONCLUSIVE:
            reason = f"{self.title} may be {beyond} its level {when}{figures}; later runs of main will settle it."
        else:
            reason = (
                f"{self.title} is {beyond} its level {when}{figures}; that lasts until recovery is shown or the loss "
                f"is accepted. It came with {self.cause()}."
            )
        return self._check(status, reason, step)

    def passing_checks(self) -> Iterator[Check]:
        """The check of the newest runs against the first ones, if they have a sample in common."""
        for step in list(self.series.steps(self.allowed))[-1:]:
            moved = change(self.direction.shown_change(step.change))
            reason = f"no slow loss is shown: {self.title} has changed by {moved} since {self.anchor}."
            yield self._check(Status.PASS, reason, step)

    @property
    def anchor(self) -> str:
        """``2 September 2026 (commit abc1234, 24 main runs ago)``, of the first run."""
        first = self.looks[0].line
        named = f"release {first.release}" if first.release else f"commit {first.commit[:7]}" if first.commit else ""
        ago = f"{counted(self.merges_since(0), 'main run')} ago"
        return f"{first.time.day} {first.time:%B %Y} ({', '.join(filter(None, (named, ago)))})"

    def _from_to(self, step: Step) -> str:
        then, now = self.direction.shown(step.level - step.change), self.direction.shown(step.level)
        taken = f", of which {figure(self.allowed)} was accepted" if self.allowed else ""
        return f"{score(then)} → {score(now)} on {counted(step.n, 'sample')} in common{taken}"

    def _check(self, status: Status, reason: str, step: Step | None) -> Check:
        name = "drift" if self.metric is None else f"{self.metric}.drift"
        check = Check(
            name=name if self.slice is None else f"{self.slice}/{name}",
            kind=CheckKind.DRIFT,
            status=status,
            action=Action.BLOCK if any(rule.action is Action.BLOCK for rule in self.rules) else Action.WARN,
            reason=reason,
            metric=self.metric,
            slice=self.slice,
            threshold=0.0 - self.limit,
        )
        if step is None:
            return check
        level, before = self.direction.shown(step.level), self.direction.shown(step.level - step.change)
        return replace(check, estimate=step.excess, current=level, baseline=before, n=step.n)


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
    rules = _rules(policy, run)
    if not rules:
        return Drift()
    watch = _Watch(history, line, scores, run, policy, rules)
    new = watch.search(main=main)
    if not main:
        notices = (_notice(part) for past in watch.pasts.values() for part in past.open)
        return replace(new, warnings=(*notices, *new.warnings), below=())
    followed = watch.follow()
    below = {(part.metric, part.slice): part for part in (*(part for _, part in followed), *new.below)}
    for check in decided:
        part = watch.decided_loss(check, below.get((check.metric or "", check.slice)))
        if part is not None:
            below[part.metric, part.slice] = part
    lasting = [check for check, _ in followed if check.status is not Status.PASS]
    recovered = [check.reason for check, _ in followed if check.status is Status.PASS]
    added = [check for check in new.checks if not lasting or check.status is not Status.PASS]
    return Drift((*lasting, *added), new.warnings, (*recovered, *new.notes), tuple(below.values()))


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
    places = range(max(0, min(past.since, len(past.looks) - 1) - LOOKED_BACK), len(past.looks))
    codes = sample_codes(past.looks[-1].samples)
    looks = past.looks[places.start :]
    series = _series(looks, metric, codes, None, lower=lower_is_better)
    return past, _Column((), looks, tuple(places), series).cause()


class _Watch:
    """A run of the branch, or of a pull request, and the runs before it."""

    def __init__(
        self,
        history: History,
        line: RunLine,
        scores: Compact,
        run: RunScores,
        policy: Policy,
        rules: Sequence[_Rule],
    ) -> None:
        self.line = line.model_copy(update={"samples": scores.samples.key, "scores": dict(scores.scores)})
        self.samples = scores.samples
        self.run = run
        self.policy = policy
        self.rules = rules
        self.level = LEVEL / (len(rules) + (len(rules) > 1))
        self.every = looks_before(history, line)
        self.newest = () if is_seen(self.every, line) else (Look(self.line, self.samples),)
        codes = set(sample_codes(self.samples))
        self.looks = tuple(
            look for look in self.every if len(codes.intersection(sample_codes(look.samples))) >= _COMMON * len(codes)
        )
        self.pasts = {rule.metric: past_of(self.looks, self.line, rule.metric) for rule in rules}

    def follow(self) -> list[tuple[Check, BelowPart]]:
        """The checks of the losses that were not over, and what is known of them with this run."""
        losses = [(*self._around(rule, part), part) for rule in self.rules for part in self.pasts[rule.metric].open]
        followed = []
        for column, start, part in losses:
            runs = (column.slice, column.names, start)
            together = [other for other, first, _ in losses if (other.slice, other.names, first) == runs]
            followed.append(self._followed([column, *_mean_of(together)], start, part))
        return followed

    def _around(self, rule: _Rule, part: BelowPart) -> tuple[_Column, int]:
        """The healthy runs before a loss and all since, and the index of the first of these."""
        past = self.pasts[rule.metric]
        place = past.place(part)
        healthy = past.sound if past.start < place else [place for place, ok in enumerate(past.healthy) if ok]
        before = [index for index in healthy if index < place][-LOOKED_BACK:]
        after = range(place, len(past.looks) + len(self.newest))
        column = self._column(rule, [*before, *after[-LOOKED_BACK:]], part.slice)
        return column, min(len(before), column.newest)

    def _followed(self, columns: Sequence[_Column], start: int, part: BelowPart) -> tuple[Check, BelowPart]:
        """The loss of the first of `columns` since the run `start`; the other is the mean of what fell with it."""
        column = columns[0]
        if not self.newest:
            return column.loss_check(start, Status.FAIL if part.shown else Status.INCONCLUSIVE), part
        merges = column.merges_since(start)
        was_shown = part.shown and merges > 1
        series, least = [one.series for one in columns], max(_MIN_LOSS, column.limit / 2.0, part.loss)
        back = recovered_since(series, start, least, self.level, was_shown=was_shown)
        if column.allowed and column.excess_at(start) > -column.limit / 2.0:
            back = column.newest
        if back is not None:
            over = column.part(start, shown=part.shown, loss=part.loss, until=column.looks[back].line.run)
            return column.loss_check(start, Status.PASS), over
        shown = merges > 0 and any(one.shows_loss_since(start, self.level) for one in columns)
        loss = -column.excess_at(start) if shown else part.loss
        status = Status.FAIL if shown else Status.INCONCLUSIVE
        return column.loss_check(start, status), column.part(start, shown=shown or was_shown, loss=loss)

    def decided_loss(self, check: Check, known: BelowPart | None) -> BelowPart | None:
        """The loss that a drop is which failed or is not settled; None for other checks."""
        is_bad = check.kind in CHANGES and check.status in (Status.FAIL, Status.INCONCLUSIVE)
        if not is_bad or self.policy.gate.decision == "point":
            return None  # plain means judge each run by itself
        shown = check.status is Status.FAIL
        if known is not None:  # it is not over, whatever else shows that it is
            return known.model_copy(update={"shown": shown or known.shown, "until": None})
        rule = next((rule for rule in self.rules if rule.metric == check.metric), None)
        if rule is None or not self.newest or not self.pasts[rule.metric].sound:
            return None
        column = self._column(rule, [len(self.pasts[rule.metric].looks)], check.slice)
        return column.part(0, shown=shown, loss=abs(check.estimate or 0.0))

    def search(self, *, main: bool) -> Drift:
        """The losses that are new with this run, as checks; one check that passes if there is none."""
        if self.policy.drift.anchor == "off":
            return Drift()
        span, notes = self._span()
        rules = [rule for rule in self.rules if not self.pasts[rule.metric].open]
        groups: dict[tuple[str, ...], list[_Column]] = {}
        for rule in rules:
            past = self.pasts[rule.metric]
            sound = [index for index in past.sound if past.looks[index] in span]
            if sound:
                newest = len(past.looks) + len(self.newest) - 1
                column = self._column(rule, sorted({*sound[:BEFORE], *sound[-LOOKED_BACK:], newest}))
                groups.setdefault(column.names, []).append(column)
        if rules and not groups:
            why = self._why_anew(span, None, rules)
            if why is not None:
                return Drift(warnings=(f"Drift is measured anew from this run on: {why}.",))
            return Drift(notes=("Drift is not measured yet: the history has no earlier run to compare with.",))
        warnings, losses, passing = list[str](), list[tuple[_Column, int]](), list[Check]()
        for columns in groups.values():
            first = columns[0]
            why = self._why_anew(span, first.looks[0], [column.rules[0] for column in columns])
            if why is not None and len(first.looks) <= BEFORE:
                warnings.append(f"Drift is measured anew from {first.anchor}: {why}.")
            losses += _losses(columns, self.level)
            passing += [check for column in columns for check in column.passing_checks()]
        checks = []
        for column, start in losses:
            is_new = start == column.newest
            check = column.loss_check(start, Status.INCONCLUSIVE if main and is_new else Status.FAIL)
            checks.append(check if main or is_new else replace(check, action=Action.WARN))
        if passing and not losses:
            lowest = min(passing, key=lambda check: check.estimate or 0.0)
            checks = [replace(lowest, name="drift", metric=None)]
        below = tuple(
            column.part(start, shown=start < column.newest, loss=-column.excess_at(start))
            for column, start in losses
            if column.metric is not None
        )
        return Drift(tuple(checks), tuple(dict.fromkeys(warnings)), tuple(notes), below)

    def _column(self, rule: _Rule, chosen: Sequence[int], slice_: str | None = None) -> _Column:
        """The runs `chosen` by their places in the past of the metric, with the scores of the samples of a slice."""
        past = self.pasts[rule.metric]
        codes, groups = sample_codes(self.samples), group_codes(self.samples)
        if slice_ is not None:
            tagged = (name for name, facts in self.run.samples.items() if slice_ in facts.tags)
            members = {sample_code(name, self.run.samples[name].content_hash) for name in tagged}
            places = [place for place, code in enumerate(codes) if code in members]
            codes, groups = [codes[place] for place in places], groups and [groups[place] for place in places]
        every = (*past.looks, *self.newest)
        looks = tuple(every[index] for index in chosen)
        series = _series(looks, rule.metric, codes, groups, lower=rule.direction.lower_is_better)
        return _Column((rule,), looks, tuple(chosen), series, newly_accepted(past, self.line, slice_), slice_)

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

    def _why_anew(self, span: Sequence[Look], anchor: Look | None, rules: Sequence[_Rule]) -> str | None:
        """Why drift is not measured from the first healthy run of `span`; None if it is."""
        before = list(span) if anchor is None else list(span[: span.index(anchor)] if anchor in span else span)
        for look in reversed(before):
            for rule in rules:
                why = incomparable(look.line, self.line, rule.metric)
                if why is None and look not in self.looks:
                    why = "fewer than half of the current samples were in the golden set before"
                if why is not None and look.line.eligible:
                    return why
        return None


def _rules(policy: Policy, run: RunScores) -> list[_Rule]:
    """The requirements on each metric that the policy has a rule for, over all samples."""
    found = []
    for rule in resolve_rules(policy, run).rules:
        scores = run.metrics.get(rule.metric)
        if rule.slice is None and scores is not None and scores.values and not is_relative(rule.metric):
            own = policy.metrics[rule.key].max_drift if rule.key in policy.metrics else None
            action = Action.WARN if Action.WARN in (policy.drift.action, rule.drop_action) else Action.BLOCK
            found.append(_Rule(rule.metric, policy.drift.max_drift if own is None else own, action, rule.direction))
    return found


def _series(
    looks: Sequence[Look], metric: str, codes: Sequence[str], groups: Sequence[str] | None, *, lower: bool
) -> Series:
    """The scores of the samples `codes` in the runs `looks`, where more is better."""
    labels = None if groups is None else np.unique(groups, return_inverse=True)[1]
    series = Series(scores_of(looks, codes, metric), labels)
    return series.flipped() if lower else series


def _mean_of(columns: Sequence[_Column]) -> list[_Column]:
    """The mean of several metrics with the same runs, if there are several."""
    if len(columns) < 2 or columns[0].slice is not None:
        return []
    series = mean_series([column.series for column in columns])
    rules = tuple(column.rules[0] for column in columns)
    return [replace(columns[0], rules=rules, series=series, allowed=sum(one.allowed for one in columns) / len(columns))]


def _losses(columns: Sequence[_Column], level: float) -> list[tuple[_Column, int]]:
    """Those of `columns`, and of their mean, that show a loss, with its likeliest first run, by index.

    Metrics that fell with the mean are named, so that they can be investigated or accepted.
    """
    starts = {column.metric: column.start_of_loss(level) for column in (*columns, *_mean_of(columns))}
    start = starts.get(None)
    if start is None:
        return [(column, first) for column in columns if (first := starts[column.metric]) is not None]
    lowest = min(column.excess_at(start) for column in columns)
    named = [
        column
        for column in columns
        if starts[column.metric] is not None or column.excess_at(start) <= max(lowest, -column.limit / 2.0)
    ]
    return [(column, start) for column in (*named, *_mean_of(columns))]


def _notice(part: BelowPart) -> str:
    """What a pull request says of a loss on the main branch."""
    title = part.metric if part.slice is None else f"{part.metric} on '{part.slice}'"
    may = "is" if part.shown else "may be"
    return (
        f"The main branch {may} {figure(part.loss)} below its level of {title} {since(part.commit, part.merges)}. "
        "This run is compared with the main branch as it is now, and does not fail for that."
    )


def since(commit: str | None, merges: int) -> str:
    """``since 3f2a91c, 4 merges ago``."""
    named = commit[:7] if commit else "a run of no known commit"
    return f"since {named}, {counted(merges, 'merge')} ago" if merges else f"since {named}, the newest merge"


def commit_of(line: RunLine) -> str:
    """The commit of a run, or else its date."""
    return line.commit[:7] if line.commit else f"{line.time:%Y-%m-%d %H:%M}"
