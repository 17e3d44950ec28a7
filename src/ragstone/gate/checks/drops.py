"""Decides drops: is a loss shown on these questions, and is it estimated larger than is allowed?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragstone.gate.bounds import ROUNDING, BoundCheck, changes_of, questions
from ragstone.gate.confirm import look_at
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import group_labels
from ragstone.gate.resolution import Spread, visible_loss
from ragstone.stats.family import Decision, Hypothesis, deviation_of, samples_to_settle
from ragstone.stats.intervals import mean_interval
from ragstone.stats.losses import p_values

MIN_TAGGED = 5
"""A tag of fewer samples is not looked at by itself: not even their total collapse would show."""
MAX_TAGS = 50
"""Of more tags, those with the most samples are looked at."""
MAX_TAG_CHARS = 200
"""A longer tag is not looked at by itself: it would fill every report, and does not fit into a history."""


def drops_by_tag(asked: Sequence[BoundCheck], evidence: Evidence) -> tuple[BoundCheck, ...]:
    """The drops to look for among the samples of each tag: of the metrics whose drops over all samples are `asked`.

    Not where the policy has a rule of its own, nor where a drop of the metric, or of the tag, is accepted.
    """
    members: dict[str, set[str]] = {}
    for sample_id, facts in evidence.current.samples.items():
        for tag in facts.tags:
            if len(tag) <= MAX_TAG_CHARS:
                members.setdefault(tag, set()).add(sample_id)
    usual = range(MIN_TAGGED, len(evidence.current.samples))
    tags = sorted((tag for tag, ids in members.items() if len(ids) in usual), key=lambda tag: (-len(members[tag]), tag))
    ruled = {(one.rule.metric, one.rule.slice) for one in asked} | evidence.policy.widened.keys()
    whole = [one.rule for one in asked if one.rule.slice is None and one.rule.accepted is None]
    rules = [
        replace(rule, slice=tag, samples=frozenset(members[tag]), min=None, target=None, written=False)
        for tag in tags[:MAX_TAGS]
        for rule in whole
        if (rule.metric, tag) not in ruled
    ]
    found = questions(evidence.current, evidence.pairing, rules)
    return tuple(one for one in found if len(one.units) >= MIN_TAGGED)


def decide_drops(asked: Sequence[BoundCheck], evidence: Evidence) -> list[Decision]:
    """The decisions on `asked`, which share the policy's error rate; tags and slices have a part of it together."""
    if not asked:
        return []
    policy, look = evidence.policy, look_at(evidence.confirmed)
    labels = group_labels(evidence.current, asked[0].ids)
    found = p_values(list(changes_of(asked)), groups=labels, seed=evidence.seed)
    parts = any(one.rule.slice is not None for one in asked)
    metrics = sum(one.rule.slice is None for one in asked)
    decisions = []
    for one, p in zip(asked, found, strict=True):
        n, groups = len(one.values), None if labels is None else labels[one.units]
        interval = mean_interval(one.values, confidence=1.0 - policy.alpha, bounds=one.bounds, groups=groups)
        beyond = interval.estimate < one.bound - ROUNDING
        below = bool(beyond and p <= look.fail * policy.alpha)
        hypothesis = Hypothesis(one.name, one.values, one.units, one.bound, one.bounds, groups)
        level = look.fail * policy.alpha / max(1, metrics)
        decisions.append(
            Decision(
                estimate=interval.estimate,
                interval=interval,
                p_below=float(p),
                below=below,
                above=interval.low >= one.bound and not below,
                n=n,
                n_more=0 if below or not beyond else samples_to_settle(hypothesis, level=level, alpha=policy.alpha),
                detectable=visible_loss(
                    Spread(one.rule.metric, deviation_of(hypothesis), "", n, n / (interval.n_groups or n)),
                    n,
                    allowed=-one.bound,
                    policy=policy,
                    metrics=metrics,
                    parts=parts,
                    runs=1 if one.change is None else one.change.then.shape[1],
                ),
                p_adjusted=float(p),
                suspected=bool(beyond and p <= look.suspect * policy.alpha),
            )
        )
    return decisions
