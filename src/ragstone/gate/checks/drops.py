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
from itertools import product
from operator import is_

import numpy as np

from ragstone.formatting import bound, change, counted, digits_for, listed, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck, changes_of, questions
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.comparability import Pairing, differences
from ragstone.gate.confirm import FAIL, is_doubt, suspect_at
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
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
from ragstone.stats.losses import loss_test, mean_change, row_means

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
    def is_collapse(self) -> bool:
        """Whether it is so large that it is never a pass for lack of samples."""
        return self.check.estimate - self.check.unchanged <= -COLLAPSE


class Drops(Checker):
    """The drops and rises, those that block and those that warn apart, and those among
    the samples of each tag: there, only what doesn't pass."""

    kinds = (CheckKind.DROP, CheckKind.RISE)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        drops = [
            check for check in evidence.bound_checks if check.kind is CheckKind.DROP
        ]
        ruled = [check for check in drops if check.action is Action.BLOCK]
        warning = [check for check in drops if check.action is Action.WARN]
        tagged: tuple[BoundCheck, ...] = ()
        if evidence.policy.gate.decision == "evidence":
            tagged = drops_by_tag(ruled, evidence)
        checks = _without_word_losses(ruled, tagged, evidence)
        of_rules = checks[: len(ruled)]
        # What no rule names is reported where it doesn't pass, or more answers could
        # decide it.
        alpha = evidence.policy.alpha
        others = [
            check
            for check in checks[len(ruled) :]
            if not check.by_words and (not check.passed or is_doubt(check, alpha))
        ]
        failed = {
            check.metric
            for check in of_rules
            if check.failed and check.slice is None and not check.by_words
        }
        if failed:
            failed.add(None)  # the mean says no more
        others = [check for check in others if check.metric not in failed]
        if any(check.failed and check.metric is None for check in others):
            of_rules = [_as_part_of_mean(check) for check in of_rules]
        yield from of_rules
        yield from others
        yield from _checks(warning, (), evidence)[: len(warning)]

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
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


def drops_by_tag(
    drops: Sequence[BoundCheck], evidence: Evidence
) -> tuple[BoundCheck, ...]:
    """The drops to look for among the samples of each tag: of the metrics whose `drops`
    over all samples are checked.

    Not of a tag that is too long, or that all samples have; nor where the policy has a
    rule of its own, or a drop of the metric, or of the tag, is accepted.
    """
    members: dict[str, set[str]] = {}
    for sample_id, facts in evidence.current.samples.items():
        for tag in facts.tags:
            members.setdefault(tag, set()).add(sample_id)
    total = len(evidence.current.samples)
    tags = [
        tag
        for tag, samples in members.items()
        if len(tag) <= MAX_TAG_CHARS and MIN_TAGGED <= len(samples) < total
    ]
    tags.sort(key=lambda tag: (-len(members[tag]), tag))
    rules = [drop.rule for drop in drops]
    ruled = {(rule.metric, rule.slice) for rule in rules}
    ruled |= evidence.policy.widened.keys()
    wholes = [rule for rule in rules if rule.slice is None and rule.accepted is None]
    of_tags = [
        replace(
            rule, slice=tag, samples=frozenset(members[tag]), min=None, written=False
        )
        for tag, rule in product(tags[:MAX_TAGS], wholes)
        if (rule.metric, tag) not in ruled
    ]
    checks = questions(evidence.current, evidence.pairing, of_tags)
    return tuple(check for check in checks if len(check.units) >= MIN_TAGGED)


def decide_drops(
    drops: Sequence[BoundCheck], evidence: Evidence
) -> tuple[list[Drop], float]:
    """The decisions on `drops`, which share the policy's error rate, and the p-value of
    their mean; tags and slices have a part of the rate together."""
    p_values, mean_p_value = loss_test(list(changes_of(drops)), seed=evidence.seed)
    wholes = sum(drop.rule.slice is None for drop in drops)
    tests = number_of_tests(wholes, parts=wholes < len(drops))
    alpha = evidence.policy.alpha
    suspect = suspect_at(evidence.confirmed)
    decided = []
    for drop, p_value in zip(drops, p_values.tolist(), strict=True):
        detectable = None
        if drop.rule.slice is None:
            detectable = simulated_loss(drop, evidence, tests)
        interval = None
        if evidence.policy.gate.decision == "assured":
            groups = None if drop.change is None else drop.change.groups
            interval = mean_interval(
                drop.values,
                confidence=1.0 - alpha,
                bounds=(-1.0, 1.0),
                groups=None if groups is None else groups[drop.units],
            )
        decided.append(
            Drop(
                drop,
                p_value,
                detectable,
                fails=drop.is_beyond and p_value <= FAIL * alpha,
                suspected=drop.is_beyond and p_value <= suspect * alpha,
                interval=interval,
            )
        )
    return decided, mean_p_value


def _as_part_of_mean(check: Check) -> Check:
    """`check` where the mean of the metrics is shown to fall: if it is beyond its
    limit, it may be why."""
    if not check.passed or not check.is_beyond or check.slice is not None:
        return check
    reason = f"{check.metric} changed beyond its limit, and the mean of the metrics is shown to fall."
    return replace(check, status=Status.INCONCLUSIVE, reason=reason)


def _mean_check(
    drops: Sequence[BoundCheck], p_value: float, evidence: Evidence
) -> Check:
    """The check of the mean over several metrics, which can be shown to fall where none
    of them is by itself."""
    suspect = suspect_at(evidence.confirmed)
    alpha = evidence.policy.alpha
    mean = mean_change([drop.change for drop in drops if drop.change is not None])
    n = len(mean.values)
    estimate = float(mean.values.mean()) if n else 0.0
    allowed = float(np.mean([drop.bound for drop in drops]))
    status = Status.PASS
    shown = "no more than chance explains"
    if estimate < allowed - ROUNDING:
        if p_value <= FAIL * alpha:
            status = Status.FAIL
            shown = "none of them is shown to fall by itself"
        elif p_value <= suspect * alpha:
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
    if all(map(is_, by_facts, drops)):
        return checks
    count = len(ruled)
    checks_of_facts = _checks(by_facts[:count], by_facts[count:], evidence)
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
        estimate=bound_check.estimate,
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
    check = drop.check
    if drop.interval is not None:
        is_assured = drop.interval.low >= check.bound and not drop.fails
        is_unharmed = bool(np.all(check.values >= 0.0))
        return Status.PASS if is_assured or is_unharmed else Status.FAIL
    if drop.fails:
        return Status.FAIL
    if drop.suspected:
        return Status.INCONCLUSIVE
    if check.rule.slice is not None and not check.rule.written:
        return Status.PASS  # of a tag that the policy has no rule for
    if drop.is_collapse:
        return Status.INCONCLUSIVE
    # A part of more broken questions than pass is no pass either.
    broken = int(np.count_nonzero(check.values <= -GAP))
    if check.is_beyond and broken >= MIN_BROKEN - 1:
        for decided in evidence.decided:
            if decided.kind is CheckKind.QUESTIONS and not decided.passed:
                return Status.INCONCLUSIVE
    return Status.PASS


def _reason(drop: Drop, status: Status) -> str:
    check = drop.check
    n = counted(len(check.values), "paired sample")
    if not check.values.any():
        return f"is the same as in the baseline on each of {n}"
    estimate = check.estimate
    moved = change(
        check.rule.direction.shown_change(estimate),
        digits_for(estimate, [check.bound]),
    )
    if status is not Status.FAIL and drop.suspected:
        detail = ": a loss is suspected, but not shown"
    elif status is Status.INCONCLUSIVE:
        detail = ": too few to tell it from chance"
    else:
        detail = f"; {_allowed(check)}"
    if status is Status.FAIL and drop.interval is not None and not check.is_beyond:
        detail = f": more is not ruled out for other questions{detail}"
    elif status is Status.PASS and check.is_beyond and not drop.suspected:
        detail = f", no more than chance explains{detail}"
    return f"changed by {moved} from the baseline on {n}{detail}"


def _allowed(check: BoundCheck) -> str:
    change_word = check.rule.direction.change
    if check.rule.accepted is not None:
        return f"a {change_word} of {bound(-check.bound)} is accepted ({check.rule.accepted})"
    return f"a {change_word} of {threshold(-check.bound)} is allowed"
