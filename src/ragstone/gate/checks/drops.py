"""Has no mean dropped (or risen, where less is better) by more than is allowed?

A drop fails if it is shown to be a loss on these questions, beyond their own noise (stats/losses.py), and estimated
larger than is allowed. The mean of all metrics is looked at too; it is a check of its own where no metric fails. A drop
is inconclusive if it is suspected; if there are too few samples to show even a collapse; or if it is larger than is
allowed and comes from questions that broke. With ``decision = "assured"`` the whole interval of the drop, which is for
other questions of this kind, must be within what is allowed; with ``"point"``, the means alone are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.formatting import bound, change, counted, digits_for, figure, listed, percent, threshold
from ragstone.gate.bounds import ROUNDING, BoundCheck, changes_of, questions
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import differences
from ragstone.gate.confirm import is_doubt, look_at
from ragstone.gate.direction import HIGHER, LOWER, as_reported
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.sensitivity import number_of_tests, simulated_loss
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Interval, Status
from ragstone.gate.word_comparison import without_word_losses, words_reason
from ragstone.stats.estimate import Estimate
from ragstone.stats.flips import GAP
from ragstone.stats.intervals import mean_interval
from ragstone.stats.losses import loss_test, mean_change, row_means

COLLAPSE = 0.5
"""A loss of more than this is never a pass for lack of samples."""
MIN_TAGGED = 5
"""A tag of fewer samples is not looked at by itself: not even their total collapse would show."""
MAX_TAGS = 50
"""Of more tags, those with the most samples are looked at."""
MAX_TAG_CHARS = 200
"""A longer tag is not looked at by itself: it would fill every report, and does not fit into a history."""

_KEYS: dict[str, str] = {way.change: way.change_key for way in (HIGHER, LOWER)}


@dataclass(frozen=True, slots=True)
class Drop:
    """The change of one mean. `p_value` is that of "no loss on these questions", adjusted over all drops."""

    check: BoundCheck
    interval: Estimate
    p_value: float
    detectable: float | None
    fails: bool
    suspected: bool

    @property
    def is_beyond(self) -> bool:
        """Whether it is estimated larger than is allowed."""
        return self.interval.estimate < self.check.bound - ROUNDING

    @property
    def unharmed(self) -> bool:
        """Whether no sample got worse: then there is no drop to rule out, however few the samples."""
        return bool(np.all(self.check.values >= 0.0))


class Drops(Checker):
    """The drops and rises with one action, and those among the samples of each tag: there, only what doesn't pass."""

    kinds = (CheckKind.DROP, CheckKind.RISE)
    policy_key = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        drops = [check for check in evidence.asked if check.kind is CheckKind.DROP and check.action is self._action]
        decision = evidence.policy.gate.decision
        looks_at_tags = decision == "evidence" and self._action is Action.BLOCK
        tagged = drops_by_tag(drops, evidence) if looks_at_tags else ()
        checks = _checks((*drops, *tagged), len(drops), evidence)
        if self._action is Action.BLOCK:
            checks = _without_word_losses(checks, (*drops, *tagged), len(drops), evidence)
        own = checks[: len(drops)]
        of_tags = checks[len(drops) : len(drops) + len(tagged)]
        failed = [check for check in own if check.status is Status.FAIL and check.slice is None]
        lost = {check.metric for check in failed if not check.by_words}
        mean = () if lost or self._action is Action.WARN else checks[len(drops) + len(tagged) :]
        mean_fails = any(check.status is Status.FAIL for check in mean)
        yield from map(_as_part_of_mean, own) if mean_fails else own
        for check in (*mean, *of_tags):
            doubtful = is_doubt(check, evidence.policy.alpha, look_at(evidence.confirmed))
            if (check.status is not Status.PASS or doubtful) and not check.by_words and check.metric not in lost:
                yield check

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if self._action is not Action.BLOCK:
            return  # the other family reports for both
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
            yield from dict.fromkeys(skipped[metric] for metric in sorted(metrics & skipped.keys()))
            checked = {(check.metric, check.slice) for check in evidence.decided if check.kind in CHANGES}
            for rule in rules:
                if rule.metric in pairing.metrics and (rule.metric, rule.slice) not in checked:
                    yield f"{rule.title}: no sample has a score in both runs, so its drop was not checked."

    def key(self, check: Check) -> KeyPath:
        if check.metric is None:
            return ()
        rule = ("metrics", check.metric, _KEYS[check.kind])
        if check.slice is None:
            return rule
        return ("slices", check.slice, *rule)


def drops_by_tag(drops: Sequence[BoundCheck], evidence: Evidence) -> tuple[BoundCheck, ...]:
    """The drops to look for among the samples of each tag: of the metrics whose `drops` over all samples are checked.

    Not where the policy has a rule of its own, nor where a drop of the metric, or of the tag, is accepted.
    """
    members: dict[str, set[str]] = {}
    for sample_id, facts in evidence.current.samples.items():
        for tag in facts.tags:
            if len(tag) <= MAX_TAG_CHARS:
                members.setdefault(tag, set()).add(sample_id)
    usual = range(MIN_TAGGED, len(evidence.current.samples))
    tags = sorted((tag for tag, ids in members.items() if len(ids) in usual), key=lambda tag: (-len(members[tag]), tag))
    ruled = {(drop.rule.metric, drop.rule.slice) for drop in drops} | evidence.policy.widened.keys()
    whole = [drop.rule for drop in drops if drop.rule.slice is None and drop.rule.accepted is None]
    rules = [
        replace(rule, slice=tag, samples=frozenset(members[tag]), min=None, target=None, written=False)
        for tag in tags[:MAX_TAGS]
        for rule in whole
        if (rule.metric, tag) not in ruled
    ]
    checks = questions(evidence.current, evidence.pairing, rules)
    return tuple(check for check in checks if len(check.units) >= MIN_TAGGED)


def _as_part_of_mean(check: Check) -> Check:
    """`check` where the mean of the metrics is shown to fall: if it is beyond its limit, it may be why."""
    if check.status is not Status.PASS or not check.is_beyond or check.slice is not None:
        return check
    reason = f"{check.metric} changed beyond its limit, and the mean of the metrics is shown to fall."
    return replace(check, status=Status.INCONCLUSIVE, reason=reason)


@dataclass(frozen=True, slots=True)
class DecidedDrops:
    """The decisions on drops; `mean` is that on the mean over those of whole metrics, None for fewer than two."""

    drops: tuple[Drop, ...]
    mean: Check | None


def decide_drops(drops: Sequence[BoundCheck], evidence: Evidence) -> DecidedDrops:
    """The decisions on `drops`, which share the policy's error rate; tags and slices have a part of it together."""
    if not drops:
        return DecidedDrops((), None)
    policy = evidence.policy
    look = look_at(evidence.confirmed)
    labels = group_labels(evidence.current, drops[0].ids)
    tested = loss_test(list(changes_of(drops)), groups=labels, seed=evidence.seed)
    parts = any(drop.rule.slice is not None for drop in drops)
    wholes = [drop for drop in drops if drop.rule.slice is None]
    tests = number_of_tests(len(wholes), parts=parts)
    decided = []
    for drop, p in zip(drops, tested.p_values.tolist(), strict=True):
        groups = None if labels is None else labels[drop.units]
        interval = mean_interval(drop.values, confidence=1.0 - policy.alpha, bounds=drop.bounds, groups=groups)
        beyond = interval.estimate < drop.bound - ROUNDING
        decided.append(
            Drop(
                drop,
                interval,
                p_value=p,
                detectable=None if drop.rule.slice is not None else simulated_loss(drop, evidence, labels, tests),
                fails=beyond and p <= look.fail * policy.alpha,
                suspected=beyond and p <= look.suspect * policy.alpha,
            )
        )
    mean = _mean_check(wholes, tested.mean_p_value, evidence) if len(wholes) > 1 else None
    return DecidedDrops(tuple(decided), mean)


def _mean_check(drops: Sequence[BoundCheck], p_value: float, evidence: Evidence) -> Check:
    """The check of the mean over several metrics, which can be shown to fall where none of them is by itself."""
    look = look_at(evidence.confirmed)
    alpha = evidence.policy.alpha
    mean = mean_change([drop.change for drop in drops if drop.change is not None])
    estimate = float(mean.values.mean()) if len(mean.values) else 0.0
    allowed = float(np.mean([drop.bound for drop in drops]))
    beyond = estimate < allowed - ROUNDING and evidence.policy.gate.decision != "point"
    status = Status.PASS
    if beyond and p_value <= look.suspect * alpha:
        status = Status.FAIL if p_value <= look.fail * alpha else Status.INCONCLUSIVE
    names = [f"1 - {drop.rule.metric}" if drop.rule.lower_is_better else drop.rule.metric for drop in drops]
    fell = f"The mean of {listed(names)} changed by {change(estimate)} on {counted(len(mean.values), 'question')}"
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
        current=float(row_means(mean.now).mean()) if len(mean.values) else None,
        baseline=float(row_means(mean.then).mean()) if len(mean.values) else None,
        n=len(mean.values),
        p_value=p_value,
    )


def _checks(drops: Sequence[BoundCheck], rules: int, evidence: Evidence) -> list[Check]:
    """The checks of `drops`, and that of their mean if there is one; the first `rules` of them are asked for by the
    policy, the others are of tags."""
    decided = decide_drops(drops, evidence)
    checks = [_check(drop, evidence, few=place < rules) for place, drop in enumerate(decided.drops)]
    if decided.mean is None:
        return checks
    return [*checks, decided.mean]


def _without_word_losses(
    checks: Sequence[Check], drops: Sequence[BoundCheck], rules: int, evidence: Evidence
) -> list[Check]:
    """`checks` of `drops`, of which those only warn that pass without the losses that only words show."""
    if all(check.status is Status.PASS for check in checks):
        return list(checks)
    by_facts = without_word_losses(drops, evidence)
    if all(facts is drop for facts, drop in zip(by_facts, drops, strict=True)):
        return list(checks)
    decided = []
    for check, of_facts in zip(checks, _checks(by_facts, rules, evidence), strict=True):
        if check.status is Status.PASS or of_facts.status is check.status:
            decided.append(check)
        elif of_facts.status is Status.PASS:
            reason = f"{check.reason} {words_reason(check.metric)}"
            decided.append(replace(check, action=Action.WARN, reason=reason, by_words=True))
        else:
            decided.append(of_facts)
    return decided


def _check(drop: Drop, evidence: Evidence, *, few: bool) -> Check:
    """The check of a drop; with `few`, a collapse of too few samples to show it is inconclusive."""
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
        if drop.interval.low >= drop.check.bound and not drop.fails:
            return Status.PASS
        return Status.FAIL
    if drop.fails:
        return Status.FAIL
    collapsed = few and drop.interval.estimate - drop.check.unchanged <= COLLAPSE - 1.0
    doubtful = drop.suspected or collapsed or (few and _is_of_broken_questions(drop, evidence))
    if doubtful:
        return Status.INCONCLUSIVE
    return Status.PASS


def _is_of_broken_questions(drop: Drop, evidence: Evidence) -> bool:
    """Whether it is a part of more broken questions than pass: then it is no pass either."""
    unsettled = any(check.kind is CheckKind.QUESTIONS and check.status is not Status.PASS for check in evidence.decided)
    broken = int(np.count_nonzero(drop.check.values <= -GAP))
    return unsettled and drop.is_beyond and broken >= MIN_BROKEN - 1


def _reason(drop: Drop, status: Status) -> str:
    check = drop.check
    way = drop.check.rule.direction
    estimate = drop.interval.estimate
    n = counted(drop.interval.n, "paired sample")
    if not check.values.any():
        return f"is the same as in the baseline on each of {n}"
    moved = change(way.shown_change(estimate), digits_for(estimate, [check.bound]))
    fell = f"{way.moved} by {figure(-estimate, -check.bound)} from the baseline on {n}"
    allowed = _allowed(check)
    limit = _limit(check)
    if status is Status.FAIL and estimate < check.bound:
        return f"{fell}; {allowed}"
    if status is Status.INCONCLUSIVE:
        return f"{fell}: {_doubt(drop)}"
    start = f"changed by {moved} from the baseline on {n}"
    if drop.unharmed:
        return f"{start}: no sample got worse"
    if status is Status.FAIL:
        return f"{start}: a {way.change} of more than {limit} is not ruled out ({_span(drop)})"
    if drop.is_beyond:
        return f"{fell}, no more than chance explains; {allowed}"
    return f"{start}; {allowed}"


def _doubt(drop: Drop) -> str:
    if drop.suspected:
        return "suspected, but not shown"
    if drop.interval.estimate - drop.check.unchanged <= COLLAPSE - 1.0:
        return "too few to show even a collapse"
    broken = int(np.count_nonzero(drop.check.values <= -GAP))
    return f"by {counted(broken, 'question')} that broke"


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
    way = drop.check.rule.direction
    low, high = sorted((way.shown_change(drop.interval.low), way.shown_change(drop.interval.high)))
    return f"{percent(drop.interval.confidence)} interval {change(low)} to {change(high)}"
