"""Which rules of the policy apply to a run: resolves names, expands families, fills in
defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ragstone.errors import suggestion
from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import title_of
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, MetricRule, SliceRules
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.registry import find_metric, is_relative, lower_is_better


@dataclass(frozen=True, slots=True)
class Rule:
    """One metric over all samples, or over those with a tag."""

    key: str
    """Its name in the policy, possibly of a family."""
    metric: str
    min: float | None
    """On a scale on which more is better: where less is, 1 − max."""
    max_drop: float | None
    """On a scale on which more is better: where less is, max_rise."""
    floor_action: Action
    drop_action: Action
    written: bool
    """The policy names it, so it must have scores."""
    slice: str | None = None
    """The tag of the samples that it is about; None for all."""
    samples: frozenset[str] | None = None
    """The samples that it is about; None for all."""
    accepted: str | None = None
    """The id of the accepted drop that `max_drop` comes from, if any."""
    lower_is_better: bool = False

    @property
    def direction(self) -> Direction:
        if self.lower_is_better:
            return LOWER
        return HIGHER

    @property
    def action(self) -> Action:
        """The stronger of the actions of the rule's checks."""
        floor_blocks = self.min is not None and self.floor_action is Action.BLOCK
        drop_blocks = self.max_drop is not None and self.drop_action is Action.BLOCK
        if floor_blocks or drop_blocks:
            return Action.BLOCK
        return Action.WARN

    def covered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the samples that it is about."""
        if self.samples is None:
            return tuple(ids)
        return tuple(sample_id for sample_id in ids if sample_id in self.samples)

    @property
    def title(self) -> str:
        return title_of(self.metric, self.slice)

    def name_of(self, kind: CheckKind) -> str:
        """The name of this rule's check of the kind."""
        base = f"{self.metric}.{kind.value}"
        if self.slice is None:
            return base
        return f"{self.slice}/{base}"

    def check(
        self, kind: CheckKind, status: Status, action: Action, reason: str
    ) -> Check:
        """A check of this rule; `reason` does not name the metric."""
        return Check(
            name=self.name_of(kind),
            kind=kind,
            status=status,
            action=action,
            reason=f"{self.title}: {reason}",
            short_reason=reason,
            metric=self.metric,
            slice=self.slice,
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """The rules for a run."""

    rules: tuple[Rule, ...]
    unknown_tags: Mapping[str, str]
    """The tags of the policy that no sample has, each with a hint."""


def resolve_rules(policy: Policy, run: RunScores) -> Resolved:
    """All rules of `policy` for `run`, those over all samples first, sorted by metric
    name."""
    samples_by_tag: dict[str, set[str]] = {}
    for sample_id, facts in run.samples.items():
        for tag in facts.tags:
            samples_by_tag.setdefault(tag, set()).add(sample_id)
    rules = list(_overall(policy, run))
    unknown_tags: dict[str, str] = {}
    for tag, part in policy.slices.items():
        if tag in samples_by_tag:
            rules += _of_slice(tag, part, frozenset(samples_by_tag[tag]), policy, run)
        elif samples_by_tag:
            unknown_tags[tag] = suggestion(tag, samples_by_tag)
        else:
            unknown_tags[tag] = "No sample of this run has any tag."
    return Resolved(tuple(_widened(rule, policy) for rule in rules), unknown_tags)


def _of_slice(
    tag: str, part: SliceRules, samples: frozenset[str], policy: Policy, run: RunScores
) -> Iterator[Rule]:
    """The rules for the samples with a tag."""
    for name, written in part.metrics.items():
        action = written.action or Action.BLOCK
        rule = replace(
            _rule(name, written, policy, action, action), slice=tag, samples=samples
        )
        for metric in metrics_of(name, run, part.metrics):
            yield replace(rule, metric=metric)


def _rule(
    name: str,
    written: MetricRule,
    policy: Policy,
    floor_action: Action,
    drop_action: Action,
) -> Rule:
    """The rule that the policy has under `name`."""
    floor = written.min
    max_drop = written.max_drop
    if written.max is not None or written.max_rise is not None:
        floor = None if written.max is None else 1.0 - written.max
        max_drop = written.max_rise
    return Rule(
        key=name,
        metric=name,
        min=floor,
        max_drop=max_drop,
        floor_action=floor_action,
        drop_action=drop_action,
        written=True,
        lower_is_better=policy.lower_is_better(name),
    )


def _widened(rule: Rule, policy: Policy) -> Rule:
    """`rule` with the accepted drop allowed, if that is larger."""
    entry = policy.widened.get((rule.metric, rule.slice))
    if entry is None or rule.max_drop is None or entry.drop <= rule.max_drop:
        return rule
    return replace(rule, max_drop=entry.drop, accepted=entry.id)


def _overall(policy: Policy, run: RunScores) -> Iterator[Rule]:
    for name, written in policy.metrics.items():
        floor_action = policy.action_for(
            name, CheckKind.FLOOR, offline_judge=run.offline
        )
        drop_action = policy.action_for(name, CheckKind.DROP, offline_judge=run.offline)
        rule = replace(
            _rule(name, written, policy, floor_action, drop_action),
            written=name in policy.named,
        )
        for metric in metrics_of(name, run, policy.metrics):
            yield replace(rule, metric=metric)
    if not policy.gate.only_named:
        yield from _unnamed(run, policy.metrics)


def _unnamed(run: RunScores, rules: Mapping[str, MetricRule]) -> Iterator[Rule]:
    # By default, all other measured metrics get the default drop. It blocks if no judge
    # is involved: for retrieval metrics, functions of the project, and the scores of
    # another evaluator.
    covered: set[str] = set()
    for name in rules:
        covered.update(metrics_of(name, run, rules))
    for metric in sorted(run.metrics):
        if metric in covered or is_relative(metric):
            continue
        action = _unnamed_action(metric, run.metrics[metric].version)
        yield Rule(
            key=metric,
            metric=metric,
            min=None,
            max_drop=DEFAULT_MAX_DROP,
            floor_action=action,
            drop_action=action,
            written=False,
            lower_is_better=bool(lower_is_better(metric)),
        )


def _unnamed_action(name: str, version: str | None) -> Action:
    metric = find_metric(name)
    if metric is None:
        if is_rubric(version):
            return Action.WARN
        return Action.BLOCK
    if metric.info.blames == "retrieval" and not is_judged(name):
        return Action.BLOCK
    return Action.WARN


def metrics_of(name: str, run: RunScores, named: Mapping[str, object]) -> list[str]:
    """The metrics of `run` that the rule `name` covers: itself, and its family members
    without their own rule.

    A member that applies to no sample gives way to one that has scores.
    """
    family = [
        metric
        for metric in run.metrics
        if metric == name or (metric not in named and _family(metric) == name)
    ]
    scored = [metric for metric in family if run.metrics[metric].applies_to]
    return sorted(scored or family) or [name]


def _family(name: str) -> str | None:
    metric = find_metric(name)
    if metric is None:
        return None
    return metric.info.family
