"""Has no mean dropped (or risen, where less is better) by more than is allowed?

A drop fails if it is shown to be a loss on these questions, beyond their own noise
(stats/losses.py), and estimated larger than is allowed. The mean of all metrics is
looked at too; it is a check of its own where no metric fails. A drop is inconclusive if
it is suspected; if there are too few samples to show even a collapse; or if it is
larger than is allowed and comes from questions that broke. With ``decision =
"assured"`` the whole interval of the drop, which is for other questions of this kind,
must be within what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.formatting import bound, change, counted, digits_for, listed, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck, changes_of, questions
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.comparability import Pairing, differences
from ragstone.gate.confirm import is_doubt, look_at
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.rules import Rule
from ragstone.gate.sensitivity import number_of_tests, simulated_loss
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import (
    CHANGES,
    Action,
    Check,
    CheckKind,
    Interval,
    Status,
)
from ragstone.gate.word_comparison import without_word_losses, words_reason
from ragstone.stats.estimate import Estimate
from ragstone.stats.flips import GAP
from ragstone.stats.intervals import mean_interval
from ragstone.stats.losses import Ints, loss_test, mean_change, row_means

COLLAPSE = 0.5
"""A loss of at least this is never a pass for lack of samples."""
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
    p_value: float
    """That of "no loss on these questions", adjusted over all drops."""
    detectable: float | None
    """The smallest loss that 4 of 5 runs show."""
    fails: bool
    suspected: bool
    interval: Estimate | None = None
    """For other questions of this kind; only where it decides."""

    @property
    def estimate(self) -> float:
        return float(self.check.values.mean())

    @property
    def is_beyond(self) -> bool:
        """Whether it is estimated larger than is allowed."""
        return self.estimate < self.check.bound - ROUNDING

    @property
    def is_collapse(self) -> bool:
        """Whether it is so large that it is never a pass for lack of samples."""
        return self.estimate - self.check.unchanged <= -COLLAPSE

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
        ruled = [
            check
            for check in evidence.bound_checks
            if check.kind is CheckKind.DROP and check.action is self._action
        ]
        if self._action is Action.WARN:
            yield from _checks(ruled, (), evidence)[: len(ruled)]
            return
        tagged: tuple[BoundCheck, ...] = ()
        if evidence.policy.gate.decision == "evidence":
            tagged = drops_by_tag(ruled, evidence)
        checks = _without_word_losses(ruled, tagged, evidence)
        of_rules = checks[: len(ruled)]
        others = checks[len(ruled) :]
        failed = {
            check.metric
            for check in of_rules
            if check.failed and check.slice is None and not check.by_words
        }
        if failed:
            others = [check for check in others if check.metric is not None]
        mean_fails = any(check.failed for check in others if check.metric is None)
        for check in of_rules:
            yield _as_part_of_mean(check) if mean_fails else check
        for check in others:
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
            yield from _unchecked(rules, pairing, evidence)

    def key(self, check: Check) -> KeyPath:
        return rule_key(check, _KEYS[check.kind])


def _unchecked(
    rules: Sequence[Rule], pairing: Pairing, evidence: Evidence
) -> Iterator[str]:
    """A sentence for each of `rules` whose drop was not checked."""
    skipped = pairing.comparability.skipped
    skipped_metrics = sorted({rule.metric for rule in rules} & skipped.keys())
    yield from dict.fromkeys(skipped[metric] for metric in skipped_metrics)
    checked = {check.place for check in evidence.decided if check.kind in CHANGES}
    for rule in rules:
        is_compared = rule.metric in pairing.metrics
        if is_compared and (rule.metric, rule.slice) not in checked:
            yield f"{rule.title}: no sample has a score in both runs, so its drop was not checked."


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
    tags = sorted(members, key=lambda tag: (-len(members[tag]), tag))[:MAX_TAGS]
    rules = [drop.rule for drop in drops]
    ruled = {(rule.metric, rule.slice) for rule in rules}
    ruled |= evidence.policy.widened.keys()
    of_tags: list[Rule] = []
    for tag in tags:
        samples = frozenset(members[tag])
        for rule in rules:
            is_whole = rule.slice is None and rule.accepted is None
            if is_whole and (rule.metric, tag) not in ruled:
                of_tag = replace(rule, slice=tag, samples=samples)
                of_tags.append(replace(of_tag, min=None, written=False))
    checks = questions(evidence.current, evidence.pairing, of_tags)
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


def decide_drops(
    drops: Sequence[BoundCheck], evidence: Evidence
) -> tuple[list[Drop], float]:
    """The decisions on `drops`, which share the policy's error rate, and the p-value of
    their mean; tags and slices have a part of the rate together."""
    if not drops:
        return [], 1.0
    labels = group_labels(evidence.current, drops[0].ids)
    result = loss_test(list(changes_of(drops)), groups=labels, seed=evidence.seed)
    wholes = [drop for drop in drops if drop.rule.slice is None]
    tests = number_of_tests(len(wholes), parts=len(wholes) < len(drops))
    alpha = evidence.policy.alpha
    look = look_at(evidence.confirmed)
    decided = []
    for drop, p_value in zip(drops, result.p_values.tolist(), strict=True):
        detectable = None
        if drop.rule.slice is None:
            detectable = simulated_loss(drop, evidence, labels, tests)
        is_beyond = float(drop.values.mean()) < drop.bound - ROUNDING
        fails = is_beyond and p_value <= look.fail * alpha
        suspected = is_beyond and p_value <= look.suspect * alpha
        interval = None
        if evidence.policy.gate.decision == "assured":
            interval = _interval(drop, labels, 1.0 - alpha)
        decided.append(Drop(drop, p_value, detectable, fails, suspected, interval))
    return decided, result.mean_p_value


def _interval(drop: BoundCheck, labels: Ints | None, confidence: float) -> Estimate:
    """The interval of a drop; `labels` are the groups of all samples."""
    groups = None if labels is None else labels[drop.units]
    return mean_interval(
        drop.values, confidence=confidence, bounds=(-1.0, 1.0), groups=groups
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
    status = Status.PASS
    shown = "no more than chance explains"
    if estimate < allowed - ROUNDING:
        if p_value <= look.fail * alpha:
            status = Status.FAIL
            shown = "none of them is shown to fall by itself"
        elif p_value <= look.suspect * alpha:
            status = Status.INCONCLUSIVE
            shown = "a loss is suspected, but not shown"
    names = []
    for drop in drops:
        metric = drop.rule.metric
        names.append(f"1 - {metric}" if drop.rule.lower_is_better else metric)
    return Check(
        name="mean.drop",
        kind=CheckKind.DROP,
        status=status,
        action=drops[0].action,
        reason=f"The mean of {listed(names)} changed by {change(estimate)} on {counted(n, 'question')}: {shown}.",
        estimate=estimate,
        threshold=allowed,
        current=float(row_means(mean.now).mean()) if n else None,
        baseline=float(row_means(mean.then).mean()) if n else None,
        n=n,
        p_value=p_value,
    )


def _checks(
    ruled: Sequence[BoundCheck], tagged: Sequence[BoundCheck], evidence: Evidence
) -> list[Check]:
    """The checks of the drops of rules in the policy, of their mean if there are
    several, and of those of tags."""
    decided, mean_p_value = decide_drops((*ruled, *tagged), evidence)
    checks = [_check(drop, evidence) for drop in decided]
    wholes = [drop for drop in ruled if drop.rule.slice is None]
    if len(wholes) > 1:
        mean = _mean_check(wholes, mean_p_value, evidence)
        checks.insert(len(ruled), mean)
    return checks


def _without_word_losses(
    ruled: Sequence[BoundCheck], tagged: Sequence[BoundCheck], evidence: Evidence
) -> list[Check]:
    """The checks of the drops, of which those only warn that pass without the losses
    that only words show."""
    checks = _checks(ruled, tagged, evidence)
    if all(check.passed for check in checks):
        return checks
    drops = (*ruled, *tagged)
    by_facts = without_word_losses(drops, evidence)
    if all(facts is drop for facts, drop in zip(by_facts, drops, strict=True)):
        return checks
    facts_of_rules = by_facts[: len(ruled)]
    facts_of_tags = by_facts[len(ruled) :]
    checks_of_facts = _checks(facts_of_rules, facts_of_tags, evidence)
    decided = []
    for check, of_facts in zip(checks, checks_of_facts, strict=True):
        if check.passed or of_facts.status is check.status:
            decided.append(check)
        elif of_facts.passed:
            reason = f"{check.reason} {words_reason(check.metric)}"
            by_words = replace(check, reason=reason, by_words=True)
            decided.append(replace(by_words, action=Action.WARN))
        else:
            decided.append(of_facts)
    return decided


def _check(drop: Drop, evidence: Evidence) -> Check:
    bound_check = drop.check
    rule = bound_check.rule
    status = _status(drop, evidence)
    check = Check(
        name=bound_check.name,
        kind=CheckKind.DROP,
        status=status,
        action=bound_check.action,
        reason=f"{rule.title} {_reason(drop, status)}.",
        metric=rule.metric,
        slice=rule.slice,
        estimate=drop.estimate,
        interval=None if drop.interval is None else Interval.of(drop.interval),
        threshold=bound_check.bound,
        current=bound_check.current,
        baseline=bound_check.baseline,
        n=len(bound_check.values),
        detectable_drop=drop.detectable,
        accepted=rule.accepted,
        p_value=drop.p_value,
    )
    if rule.lower_is_better:
        return as_reported(check)
    return check


def _status(drop: Drop, evidence: Evidence) -> Status:
    if drop.interval is not None:
        is_assured = drop.interval.low >= drop.check.bound and not drop.fails
        is_unharmed = bool(np.all(drop.check.values >= 0.0))
        return Status.PASS if is_assured or is_unharmed else Status.FAIL
    if drop.fails:
        return Status.FAIL
    if drop.suspected:
        return Status.INCONCLUSIVE
    is_doubtful = drop.is_collapse or _is_of_broken_questions(drop, evidence)
    if is_doubtful and not _is_of_a_tag(drop.check.rule):
        return Status.INCONCLUSIVE
    return Status.PASS


def _is_of_a_tag(rule: Rule) -> bool:
    """Whether the policy has no rule for the slice: it was looked for by its tag."""
    return rule.slice is not None and not rule.written


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
    n = counted(len(check.values), "paired sample")
    if not check.values.any():
        return f"is the same as in the baseline on each of {n}"
    moved = change(
        check.rule.direction.shown_change(drop.estimate),
        digits_for(drop.estimate, [check.bound]),
    )
    changed = f"changed by {moved} from the baseline on {n}"
    if status is Status.FAIL and drop.interval is not None and not drop.is_beyond:
        return (
            f"{changed}: more is not ruled out for other questions; {_allowed(check)}"
        )
    if status is Status.FAIL:
        return f"{changed}; {_allowed(check)}"
    if drop.suspected:
        return f"{changed}: a loss is suspected, but not shown"
    if status is Status.INCONCLUSIVE:
        return f"{changed}: too few to tell it from chance"
    if drop.is_beyond:
        return f"{changed}, no more than chance explains; {_allowed(check)}"
    return f"{changed}; {_allowed(check)}"


def _allowed(check: BoundCheck) -> str:
    change_word = check.rule.direction.change
    if check.rule.accepted is not None:
        return f"a {change_word} of {bound(-check.bound)} is accepted ({check.rule.accepted})"
    return f"a {change_word} of {threshold(-check.bound)} is allowed"
