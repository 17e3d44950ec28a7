"""Has no mean dropped (or risen, where less is better) by more than is allowed?

A drop fails if it is larger than is allowed, and shown to be a loss on these questions
beyond the noise of their answers (stats/losses.py). It is inconclusive if a loss is
suspected; if there are too few samples to show even a collapse; or if it is larger than
is allowed and comes from questions that broke. The mean of all metrics is tested too,
and is a check of its own if no metric fails. With ``decision = "assured"`` the whole
interval of the drop, which is for other questions of this kind, must be within what is
allowed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from ragstone.formatting import bound, change, counted, digits_for, listed, threshold
from ragstone.gate.bounds import (
    ROUNDING,
    Drop,
    changes_of,
    drops_of,
    mean_score,
    reported_interval,
)
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import differences
from ragstone.gate.confirm import (
    FAIL_SHARE,
    STILL_SUSPECT_SHARE,
    SUSPECT_SHARE,
    is_doubtful,
)
from ragstone.gate.evidence import Evidence
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.verdict import CHANGE_KINDS, Action, Check, CheckKind, Status
from ragstone.gate.word_comparison import as_by_words, without_word_losses
from ragstone.stats.estimate import Estimate
from ragstone.stats.flips import GAP
from ragstone.stats.intervals import mean_interval
from ragstone.stats.losses import Change, loss_test, mean_change

MIN_COLLAPSE = 0.5
"""A loss of at least this size never passes for lack of samples."""
MIN_TAGGED_SAMPLES = 5
"""A tag of fewer samples is not tested: not even their total collapse would show."""
MAX_TAGS = 50
"""If there are more tags, those with the most samples are tested."""
MAX_TAG_CHARACTERS = 200
"""A longer tag is not tested: it would fill every report, and does not fit into a
history."""


class Drops(Checker):
    """The drops and rises of the rules, of their mean, and of the samples of each tag.

    Of the mean and of tags, only what doesn't pass is reported. Drops that warn are
    decided apart from those that block.
    """

    kinds = (CheckKind.DROP, CheckKind.RISE)
    policy_key = ()

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        blocking_drops = evidence.drops_with(Action.BLOCK)
        tag_drops: Sequence[Drop] = ()
        if evidence.policy.gate.decision == "evidence":
            tag_drops = drops_by_tag(blocking_drops, evidence)
        checks = list(_without_word_losses(blocking_drops, tag_drops, evidence))
        rule_checks = checks[: len(blocking_drops)]
        mean_and_tag_checks = checks[len(blocking_drops) :]
        failed_metrics = set()
        for check in rule_checks:
            if check.failed and check.slice is None and not check.by_words:
                # Its tags would say no more, nor would the mean, which has no metric.
                failed_metrics |= {check.metric, None}
        alpha = evidence.policy.alpha
        telling_checks = []
        for check in mean_and_tag_checks:
            is_telling = not check.passed or is_doubtful(check, alpha)
            is_new = not check.by_words and check.metric not in failed_metrics
            if is_telling and is_new:
                telling_checks.append(check)
        if any(check.failed and check.metric is None for check in telling_checks):
            rule_checks = list(map(_as_part_of_mean, rule_checks))
        warning_drops = evidence.drops_with(Action.WARN)
        warning_checks, _ = decide_drops(warning_drops, evidence)
        yield from (*rule_checks, *telling_checks, *warning_checks)


def unchecked_drops(evidence: Evidence) -> Iterator[str]:
    """A sentence on each allowed drop that was not checked, once all checks are
    decided."""
    rules = [rule for rule in evidence.rules if rule.max_drop is not None]
    pairing = evidence.pairing
    if not rules:
        return
    if not evidence.has_baseline:
        yield "There is no baseline, so no drop was checked."
        return
    if not evidence.is_compared:
        sentences = " ".join(differences(pairing))
        yield f"No drop was checked: {sentences}"
        return
    skipped = pairing.skipped
    metrics = {rule.metric for rule in rules}
    skipped_metrics = sorted(skipped.keys() & metrics)
    reasons = (skipped[name] for name in skipped_metrics)
    yield from dict.fromkeys(reasons)
    checked = {check.place for check in evidence.checks if check.kind in CHANGE_KINDS}
    for rule in rules:
        is_checked = rule.place in checked
        if rule.metric in pairing.metrics and not is_checked:
            yield f"{rule.title}: no sample has a score in both runs, so its drop was not checked."


def drops_by_tag(drops: Sequence[Drop], evidence: Evidence) -> tuple[Drop, ...]:
    """The drops to test among the samples of each tag, one for each of `drops` over all
    samples.

    Tags that are too long, too rare, or on all samples are left out. So is a metric if
    its drop is accepted, and a tag and metric if the policy has a rule or an accepted
    drop for them.
    """
    samples = evidence.current.samples
    members: dict[str, set[str]] = defaultdict(set)
    for sample_id, facts in samples.items():
        for tag in facts.tags:
            members[tag].add(sample_id)
    tags = [
        tag
        for tag, ids in members.items()
        if len(tag) <= MAX_TAG_CHARACTERS
        and MIN_TAGGED_SAMPLES <= len(ids) < len(samples)
    ]
    tags.sort(key=lambda tag: (-len(members[tag]), tag))
    decided_places = {drop.rule.place for drop in drops}
    decided_places |= evidence.policy.accepted_in_force.keys()
    tag_rules = []
    for tag in tags[:MAX_TAGS]:
        tagged = frozenset(members[tag])
        for drop in drops:
            rule = drop.rule
            can_be_divided = rule.slice is None and rule.accepted is None
            if can_be_divided and (rule.metric, tag) not in decided_places:
                tag_rule = replace(rule, slice=tag, samples=tagged, written=False)
                tag_rules.append(tag_rule)
    tag_drops = drops_of(evidence.pairing, tag_rules)
    return tuple(drop for drop in tag_drops if len(drop.samples) >= MIN_TAGGED_SAMPLES)


def decide_drops(
    drops: Sequence[Drop], evidence: Evidence
) -> tuple[list[Check], float]:
    """Decide `drops` as one family, at the error rate of the policy, of which slices and
    tags together have a fixed share.

    Returns the checks, and the p-value of the mean over the metrics.
    """
    p_values, mean_p_value = loss_test(changes_of(drops))
    tested = zip(drops, p_values.tolist(), strict=True)
    checks = [_check(drop, p, evidence) for drop, p in tested]
    return checks, mean_p_value


def _as_part_of_mean(check: Check) -> Check:
    """`check`, where the mean of the metrics fails. If it passed but is beyond its limit,
    it becomes inconclusive: this metric may be what lowered the mean."""
    if not check.passed or not check.is_beyond or check.slice is not None:
        return check
    reason = f"{check.metric} changed beyond its limit, and the mean of the metrics is shown to fall."
    return replace(check, status=Status.INCONCLUSIVE, reason=reason)


_WORDS_FOR_MEAN = {
    Status.PASS: "no more than chance explains",
    Status.INCONCLUSIVE: "a loss is suspected, but not shown",
    Status.FAIL: "this is a loss, though that of no single metric is shown",
}


def _mean_check(
    drops: Sequence[Drop], mean: Change, p_value: float, evidence: Evidence
) -> Check:
    """The check of the mean over several metrics. It can be shown to fall even if no
    metric is shown to fall by itself."""
    n = len(mean.values)
    estimate = float(mean.values.mean())
    bounds = [drop.bound for drop in drops]
    allowed = float(np.mean(bounds))
    status = Status.PASS
    if estimate < allowed - ROUNDING:
        status = _loss_status(p_value, evidence)
    conclusion = _WORDS_FOR_MEAN[status]
    names = [drop.rule.direction.rising_name(drop.rule.metric) for drop in drops]
    metrics = listed(names)
    moved = change(estimate)
    questions = counted(n, "question")
    reason = f"The mean of {metrics} changed by {moved} on {questions}: {conclusion}."
    action = drops[0].rule.drop_action
    return Check(
        "mean.drop",
        CheckKind.DROP,
        status,
        action,
        reason,
        estimate=estimate,
        threshold=allowed,
        current=mean_score(mean.after),
        baseline=mean_score(mean.before),
        n=n,
        p_value=p_value,
    )


def _blocking_checks(
    rule_drops: Sequence[Drop], tag_drops: Sequence[Drop], evidence: Evidence
) -> list[Check]:
    """The checks of the drops of rules, then of their mean if several metrics have
    questions in common, then of the drops of tags."""
    checks, mean_p_value = decide_drops((*rule_drops, *tag_drops), evidence)
    whole_drops = [drop for drop in rule_drops if drop.rule.slice is None]
    if len(whole_drops) > 1:
        mean = mean_change(changes_of(whole_drops))
        if mean.values.size:
            mean_check = _mean_check(whole_drops, mean, mean_p_value, evidence)
            checks.insert(len(rule_drops), mean_check)
    return checks


def _without_word_losses(
    rule_drops: Sequence[Drop], tag_drops: Sequence[Drop], evidence: Evidence
) -> Iterator[Check]:
    """The checks of the drops, in the order of `_blocking_checks`.

    The offline judge may see a loss in other words for the same facts. A check that
    would pass without such losses only warns.
    """
    checks = _blocking_checks(rule_drops, tag_drops, evidence)
    if not evidence.is_offline or all(check.passed for check in checks):
        yield from checks
        return
    drops_of_facts = without_word_losses((*rule_drops, *tag_drops), evidence)
    count = len(rule_drops)
    checks_of_facts = _blocking_checks(
        drops_of_facts[:count], drops_of_facts[count:], evidence
    )
    # By name: only one of the two may have a check of the mean.
    by_name = {check.name: check for check in checks_of_facts}
    for check in checks:
        check_of_facts = by_name.get(check.name, check)
        if check.passed or check_of_facts.status is check.status:
            yield check
        elif check_of_facts.passed:
            yield as_by_words(check)
        else:
            yield check_of_facts


def _check(drop: Drop, p_value: float, evidence: Evidence) -> Check:
    """The check of one drop, with its p-value."""
    gate = evidence.policy.gate
    rule = drop.rule
    direction = rule.direction
    limits = None
    interval = None
    if gate.decision == "assured":
        limits = mean_interval(
            drop.values,
            confidence=gate.confidence,
            bounds=(-1.0, 1.0),
            groups=drop.change.labels,
        )
        interval = reported_interval(limits, direction.reported_change)
    status, ending = _decision(drop, p_value, limits, evidence)
    estimate = drop.estimate
    moved = direction.reported_change(estimate)
    digits = digits_for(estimate, [drop.bound])
    moved_words = change(moved, digits)
    samples = counted(len(drop.values), "paired sample")
    max_drop = -drop.bound
    limit = f"{threshold(max_drop)} is allowed"
    if rule.accepted is not None:
        accepted_size = bound(max_drop)
        limit = f"{accepted_size} is accepted ({rule.accepted})"
    change_words = f"changed by {moved_words} from the baseline on {samples}{ending}"
    return Check(
        rule.name_of(direction.change_kind),
        direction.change_kind,
        status,
        rule.drop_action,
        f"{rule.title} {change_words}; a {direction.change_kind} of {limit}.",
        rule.metric,
        rule.slice,
        estimate=moved,
        interval=interval,
        threshold=direction.reported_change(drop.bound),
        current=direction.reported(mean_score(drop.change.after)),
        baseline=direction.reported(mean_score(drop.change.before)),
        n=len(drop.values),
        accepted=rule.accepted,
        p_value=p_value,
    )


_WORDS_FOR_LOSS = {
    Status.INCONCLUSIVE: ": a loss is suspected, but not shown",
    Status.FAIL: "",
}


def _decision(
    drop: Drop, p_value: float, limits: Estimate | None, evidence: Evidence
) -> tuple[Status, str]:
    """The status of a drop, and the end of its reason. With `limits`, the interval
    decides, else the p-value."""
    if limits is not None:
        # Without any loss, a wide interval only says that there are few questions.
        has_no_loss = np.all(drop.values >= 0.0)
        if limits.low >= drop.bound or has_no_loss:
            return Status.PASS, ""
        if drop.is_beyond:
            return Status.FAIL, ""
        return Status.FAIL, ": a larger drop can't be ruled out for other questions"
    status = Status.PASS
    if drop.is_beyond:
        status = _loss_status(p_value, evidence)
    if status is not Status.PASS:
        return status, _WORDS_FOR_LOSS[status]
    rule = drop.rule
    unexpected = drop.estimate - drop.change.expected
    is_collapse = unexpected <= -MIN_COLLAPSE
    # Tags are too many for a doubt that comes from few samples.
    is_of_rule = rule.slice is None or rule.written
    if is_of_rule and (is_collapse or _is_part_of_broken(drop, evidence)):
        return Status.INCONCLUSIVE, ": too few questions to tell it from chance"
    if drop.is_beyond:
        return status, ", no more than chance explains"
    return status, ""


def _loss_status(p_value: float, evidence: Evidence) -> Status:
    """The status of a loss by its p-value: fail if it is shown, inconclusive if it is
    suspected."""
    alpha = evidence.policy.alpha
    if p_value <= FAIL_SHARE * alpha:
        return Status.FAIL
    suspect = STILL_SUSPECT_SHARE if evidence.was_asked_again else SUSPECT_SHARE
    if p_value <= suspect * alpha:
        return Status.INCONCLUSIVE
    return Status.PASS


def _is_part_of_broken(drop: Drop, evidence: Evidence) -> bool:
    """Whether a drop is beyond its limit and comes from broken questions, whose check,
    decided before, did not pass."""
    is_broken = drop.values <= -GAP
    broken = int(np.count_nonzero(is_broken))
    if not drop.is_beyond or broken < MIN_BROKEN - 1:
        return False
    return any(
        check.kind == CheckKind.QUESTIONS and not check.passed
        for check in evidence.checks
    )
