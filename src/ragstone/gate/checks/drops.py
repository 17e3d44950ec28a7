"""Has no mean dropped (or risen, where less is better) by more than is allowed?

A drop fails if it is shown to be a loss on these questions, beyond their own noise
(stats/losses.py), and estimated larger than is allowed. The mean of all metrics is
looked at too; it is a check of its own where no metric fails. A drop is inconclusive if
it is suspected; if there are too few samples to show even a collapse; or if it is
larger than is allowed and comes from questions that broke. With ``decision =
"assured"`` the whole interval of the drop, which is for other questions of this kind,
must be within what is allowed; with ``"point"``, the means alone are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.formatting import (
    bound,
    change,
    counted,
    digits_for,
    figure,
    listed,
    percent,
    threshold,
)
from ragstone.gate.bounds import ROUNDING, BoundCheck, changes_of, questions
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.comparability import differences
from ragstone.gate.confirm import is_doubt, look_at
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.rules import Rule
from ragstone.gate.sensitivity import number_of_tests, simulated_loss
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Interval, Status
from ragstone.gate.word_comparison import without_word_losses, words_reason
from ragstone.stats.estimate import Estimate
from ragstone.stats.flips import GAP
from ragstone.stats.intervals import mean_interval
from ragstone.stats.losses import Ints, loss_test, mean_change, row_means

COLLAPSE = 0.5
"""A loss of more than this is never a pass for lack of samples."""
MIN_TAGGED = 5
"""A tag of fewer samples is not looked at by itself: not even their total collapse
would show."""
MAX_TAGS = 50
"""Of more tags, those with the most samples are looked at."""
MAX_TAG_CHARS = 200
"""A longer tag is not looked at by itself: it would fill every report, and does not fit
into a history."""

_KEYS: dict[str, str] = {way.change: way.change_key for way in (HIGHER, LOWER)}


@dataclass(frozen=True, slots=True)
class Drop:
    """The decision on the change of one mean."""

    check: BoundCheck
    interval: Estimate
    p_value: float
    """That of "no loss on these questions", adjusted over all drops."""
    detectable: float | None
    fails: bool
    suspected: bool

    @property
    def is_beyond(self) -> bool:
        """Whether it is estimated larger than is allowed."""
        return self.interval.estimate < self.check.bound - ROUNDING

    @property
    def unharmed(self) -> bool:
        """Whether no sample got worse: then there is no drop to rule out, however few
        the samples."""
        return bool(np.all(self.check.values >= 0.0))

    @property
    def is_collapse(self) -> bool:
        """Whether it is so large that it is never a pass for lack of samples."""
        return self.interval.estimate - self.check.unchanged <= COLLAPSE - 1.0

    @property
    def broken_questions(self) -> int:
        """How many questions broke in this metric."""
        return int(np.count_nonzero(self.check.values <= -GAP))


class Drops(Checker):
    """The drops and rises with one action, and those among the samples of each tag:
    there, only what doesn't pass."""

    kinds = (CheckKind.DROP, CheckKind.RISE)
    policy_key = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        drops = [
            check
            for check in evidence.bound_checks
            if check.kind is CheckKind.DROP and check.action is self._action
        ]
        tagged: tuple[BoundCheck, ...] = ()
        if evidence.policy.gate.decision == "evidence" and self._action is Action.BLOCK:
            tagged = drops_by_tag(drops, evidence)
        checks = _checks((*drops, *tagged), len(drops), evidence)
        if self._action is Action.BLOCK:
            checks = _without_word_losses(
                checks, (*drops, *tagged), len(drops), evidence
            )
        of_rules = checks[: len(drops)]
        of_tags = checks[len(drops) : len(drops) + len(tagged)]
        of_mean = checks[len(drops) + len(tagged) :]
        failed = {
            check.metric
            for check in of_rules
            if check.failed and check.slice is None and not check.by_words
        }
        if failed or self._action is Action.WARN:
            of_mean = []
        if any(check.failed for check in of_mean):
            of_rules = [_as_part_of_mean(check) for check in of_rules]
        yield from of_rules
        for check in (*of_mean, *of_tags):
            if check.metric not in failed and _is_worth_a_check(check, evidence):
                yield check

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if self._action is not Action.BLOCK:
            return  # the family that blocks reports for both
        rules = [rule for rule in evidence.rules if rule.max_drop is not None]
        pairing = evidence.pairing
        if not rules:
            return
        if pairing is None:
            yield "There is no baseline, so no drop was checked."
        elif evidence.compared is None:
            yield f"No drop was checked: {' '.join(differences(pairing.comparability))}"
        else:
            skipped = pairing.comparability.skipped
            metrics = {rule.metric for rule in rules}
            yield from dict.fromkeys(
                skipped[metric] for metric in sorted(metrics & skipped.keys())
            )
            checked = {
                check.place for check in evidence.decided if check.kind in CHANGES
            }
            for rule in rules:
                if (
                    rule.metric in pairing.metrics
                    and (rule.metric, rule.slice) not in checked
                ):
                    yield f"{rule.title}: no sample has a score in both runs, so its drop was not checked."

    def key(self, check: Check) -> KeyPath:
        if check.metric is None:
            return ()
        return rule_key(check, _KEYS[check.kind])


def _is_worth_a_check(check: Check, evidence: Evidence) -> bool:
    """Whether a drop that no rule names is reported: what doesn't pass, or could be
    decided by more answers."""
    if check.by_words:
        return False
    if not check.passed:
        return True
    return is_doubt(check, evidence.policy.alpha, look_at(evidence.confirmed))


def drops_by_tag(
    drops: Sequence[BoundCheck], evidence: Evidence
) -> tuple[BoundCheck, ...]:
    """The drops to look for among the samples of each tag: of the metrics whose `drops`
    over all samples are checked.

    Not where the policy has a rule of its own, nor where a drop of the metric, or of
    the tag, is accepted.
    """
    members = _members_of_tags(evidence)
    # The largest tags first.
    tags = sorted(members, key=lambda tag: (-len(members[tag]), tag))[:MAX_TAGS]
    ruled = {
        (drop.rule.metric, drop.rule.slice) for drop in drops
    } | evidence.policy.widened.keys()
    wholes = [
        drop.rule
        for drop in drops
        if drop.rule.slice is None and drop.rule.accepted is None
    ]
    rules: list[Rule] = []
    for tag in tags:
        unruled = [rule for rule in wholes if (rule.metric, tag) not in ruled]
        samples = frozenset(members[tag])
        rules += [
            replace(rule, slice=tag, samples=samples, min=None, written=False)
            for rule in unruled
        ]
    checks = questions(evidence.current, evidence.pairing, rules)
    return tuple(check for check in checks if len(check.units) >= MIN_TAGGED)


def _members_of_tags(evidence: Evidence) -> dict[str, set[str]]:
    """The samples of each tag that is looked at: neither too long, nor of too few
    samples, nor of all."""
    members: dict[str, set[str]] = {}
    for sample_id, facts in evidence.current.samples.items():
        for tag in facts.tags:
            if len(tag) <= MAX_TAG_CHARS:
                members.setdefault(tag, set()).add(sample_id)
    total = len(evidence.current.samples)
    return {tag: ids for tag, ids in members.items() if MIN_TAGGED <= len(ids) < total}


def _as_part_of_mean(check: Check) -> Check:
    """`check` where the mean of the metrics is shown to fall: if it is beyond its
    limit, it may be why."""
    if not check.passed or not check.is_beyond or check.slice is not None:
        return check
    reason = f"{check.metric} changed beyond its limit, and the mean of the metrics is shown to fall."
    return replace(check, status=Status.INCONCLUSIVE, reason=reason)


@dataclass(frozen=True, slots=True)
class DecidedDrops:
    """The decisions on drops."""

    drops: tuple[Drop, ...]
    mean: Check | None
    """The check of the mean over the drops of whole metrics; None for fewer than
    two."""


def decide_drops(drops: Sequence[BoundCheck], evidence: Evidence) -> DecidedDrops:
    """The decisions on `drops`, which share the policy's error rate; tags and slices
    have a part of it together."""
    if not drops:
        return DecidedDrops((), None)
    labels = group_labels(evidence.current, drops[0].ids)
    result = loss_test(list(changes_of(drops)), groups=labels, seed=evidence.seed)
    wholes = [drop for drop in drops if drop.rule.slice is None]
    tests = number_of_tests(len(wholes), parts=len(wholes) < len(drops))
    decided = tuple(
        _decide(drop, p_value, labels, tests, evidence)
        for drop, p_value in zip(drops, result.p_values.tolist(), strict=True)
    )
    mean = None
    if len(wholes) > 1:
        mean = _mean_check(wholes, result.mean_p_value, evidence)
    return DecidedDrops(decided, mean)


def _decide(
    drop: BoundCheck,
    p_value: float,
    labels: Ints | None,
    tests: float,
    evidence: Evidence,
) -> Drop:
    """The decision on one of so many `tests` with this p-value; `labels` are the groups
    of all samples."""
    alpha = evidence.policy.alpha
    look = look_at(evidence.confirmed)
    groups = None if labels is None else labels[drop.units]
    interval = mean_interval(
        drop.values, confidence=1.0 - alpha, bounds=drop.bounds, groups=groups
    )
    is_beyond = interval.estimate < drop.bound - ROUNDING
    detectable = None
    if drop.rule.slice is None:
        detectable = simulated_loss(drop, evidence, labels, tests)
    return Drop(
        drop,
        interval,
        p_value=p_value,
        detectable=detectable,
        fails=is_beyond and p_value <= look.fail * alpha,
        suspected=is_beyond and p_value <= look.suspect * alpha,
    )


def _mean_check(
    drops: Sequence[BoundCheck], p_value: float, evidence: Evidence
) -> Check:
    """The check of the mean over several metrics, which can be shown to fall where none
    of them is by itself."""
    look = look_at(evidence.confirmed)
    alpha = evidence.policy.alpha
    mean = mean_change([drop.change for drop in drops if drop.change is not None])
    n = len(mean.values)
    estimate = float(mean.values.mean()) if n else 0.0
    allowed = float(np.mean([drop.bound for drop in drops]))
    is_beyond = (
        estimate < allowed - ROUNDING and evidence.policy.gate.decision != "point"
    )
    status = Status.PASS
    if is_beyond and p_value <= look.suspect * alpha:
        status = Status.FAIL if p_value <= look.fail * alpha else Status.INCONCLUSIVE
    names = [
        f"1 - {drop.rule.metric}" if drop.rule.lower_is_better else drop.rule.metric
        for drop in drops
    ]
    fell = f"The mean of {listed(names)} changed by {change(estimate)} on {counted(n, 'question')}"
    shown = {
        Status.FAIL: "; none of them is shown to fall by itself",
        Status.INCONCLUSIVE: ": a loss is suspected, but not shown",
        Status.PASS: ", no more than chance explains",
    }
    return Check(
        name="mean.drop",
        kind=CheckKind.DROP,
        status=status,
        action=drops[0].action,
        reason=f"{fell}{shown[status]}.",
        estimate=estimate,
        threshold=allowed,
        current=float(row_means(mean.now).mean()) if n else None,
        baseline=float(row_means(mean.then).mean()) if n else None,
        n=n,
        p_value=p_value,
    )


def _checks(drops: Sequence[BoundCheck], rules: int, evidence: Evidence) -> list[Check]:
    """The checks of `drops`, and that of their mean if there is one.

    The first `rules` of them are those of rules in the policy, the rest are of tags.
    """
    decided = decide_drops(drops, evidence)
    checks = [
        _check(drop, evidence, few=place < rules)
        for place, drop in enumerate(decided.drops)
    ]
    if decided.mean is not None:
        checks.append(decided.mean)
    return checks


def _without_word_losses(
    checks: Sequence[Check], drops: Sequence[BoundCheck], rules: int, evidence: Evidence
) -> list[Check]:
    """`checks` of `drops`, of which those only warn that pass without the losses that
    only words show."""
    if all(check.passed for check in checks):
        return list(checks)
    by_facts = without_word_losses(drops, evidence)
    if all(facts is drop for facts, drop in zip(by_facts, drops, strict=True)):
        return list(checks)
    decided = []
    for check, of_facts in zip(checks, _checks(by_facts, rules, evidence), strict=True):
        if check.passed or of_facts.status is check.status:
            decided.append(check)
        elif of_facts.status is Status.PASS:
            reason = f"{check.reason} {words_reason(check.metric)}"
            decided.append(
                replace(check, action=Action.WARN, reason=reason, by_words=True)
            )
        else:
            decided.append(of_facts)
    return decided


def _check(drop: Drop, evidence: Evidence, *, few: bool) -> Check:
    """The check of a drop; with `few`, a collapse of too few samples to show it is
    inconclusive."""
    status = _status(drop, evidence, few=few)
    bound_check = drop.check
    rule = drop.check.rule
    check = Check(
        name=bound_check.name,
        kind=CheckKind.DROP,
        status=status,
        action=bound_check.action,
        reason=f"{rule.title} {_reason(drop, status)}.",
        metric=rule.metric,
        slice=rule.slice,
        estimate=drop.interval.estimate,
        interval=Interval.of(drop.interval),
        threshold=bound_check.bound,
        current=bound_check.current,
        baseline=bound_check.baseline,
        n=drop.interval.n,
        detectable_drop=drop.detectable,
        accepted=rule.accepted,
        p_value=drop.p_value,
    )
    if rule.lower_is_better:
        return as_reported(check)
    return check


def _status(drop: Drop, evidence: Evidence, *, few: bool) -> Status:
    decision = evidence.policy.gate.decision
    if decision == "point":
        if drop.is_beyond:
            return Status.FAIL
        return Status.PASS
    if drop.unharmed:
        return Status.PASS
    if decision == "assured":
        is_assured = drop.interval.low >= drop.check.bound and not drop.fails
        if is_assured:
            return Status.PASS
        return Status.FAIL
    if drop.fails:
        return Status.FAIL
    if drop.suspected:
        return Status.INCONCLUSIVE
    if few and (drop.is_collapse or _is_of_broken_questions(drop, evidence)):
        return Status.INCONCLUSIVE
    return Status.PASS


def _is_of_broken_questions(drop: Drop, evidence: Evidence) -> bool:
    """Whether it is a part of more broken questions than pass: then it is no pass
    either."""
    if not drop.is_beyond or drop.broken_questions < MIN_BROKEN - 1:
        return False
    return any(
        check.kind is CheckKind.QUESTIONS and not check.passed
        for check in evidence.decided
    )


def _reason(drop: Drop, status: Status) -> str:
    check = drop.check
    direction = check.rule.direction
    estimate = drop.interval.estimate
    n = counted(drop.interval.n, "paired sample")
    if not check.values.any():
        return f"is the same as in the baseline on each of {n}"
    moved = change(
        direction.shown_change(estimate), digits_for(estimate, [check.bound])
    )
    changed = f"changed by {moved} from the baseline on {n}"
    fell = f"{direction.moved} by {figure(-estimate, -check.bound)} from the baseline on {n}"
    if status is Status.FAIL and estimate < check.bound:
        return f"{fell}; {_allowed(check)}"
    if status is Status.INCONCLUSIVE:
        return f"{fell}: {_doubt(drop)}"
    if drop.unharmed:
        return f"{changed}: no sample got worse"
    if status is Status.FAIL:
        return f"{changed}: a {direction.change} of more than {_limit(check)} is not ruled out ({_span(drop)})"
    if drop.is_beyond:
        return f"{fell}, no more than chance explains; {_allowed(check)}"
    return f"{changed}; {_allowed(check)}"


def _doubt(drop: Drop) -> str:
    if drop.suspected:
        return "suspected, but not shown"
    if drop.is_collapse:
        return "too few to show even a collapse"
    return f"by {counted(drop.broken_questions, 'question')} that broke"


def _allowed(check: BoundCheck) -> str:
    change_word = check.rule.direction.change
    if check.rule.accepted is not None:
        return f"a {change_word} of {_limit(check)} is accepted ({check.rule.accepted})"
    if check.bound == 0.0:
        return f"no {change_word} is allowed"
    return f"a {change_word} of {_limit(check)} is allowed"


def _limit(check: BoundCheck) -> str:
    if check.rule.accepted is None:
        return threshold(-check.bound)
    return bound(-check.bound)


def _span(drop: Drop) -> str:
    direction = drop.check.rule.direction
    ends = [
        direction.shown_change(drop.interval.low),
        direction.shown_change(drop.interval.high),
    ]
    return f"{percent(drop.interval.confidence)} interval {change(min(ends))} to {change(max(ends))}"
