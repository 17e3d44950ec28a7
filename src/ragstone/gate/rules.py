"""Which rules of the policy apply to a run: resolves names, expands families, fills in defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ragstone.errors import suggestion
from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import title_of
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, MetricRule
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.registry import find_metric, is_relative, lower_is_better


@dataclass(frozen=True, slots=True)
class Rule:
    """One metric over all samples, or over those with the tag `slice`; `samples` None means all.

    `key` is its name in the policy (possibly of a family). `min` and `max_drop` are on a scale on which more is better:
    where less is (`lower_is_better`), they are 1 − max and max_rise. `written` says that the policy names it, so it
    must have scores. `target` is on the metric's own scale. `accepted` is the id of the accepted drop that `max_drop`
    comes from, if any.
    """

    key: str
    metric: str
    min: float | None
    max_drop: float | None
    floor_action: Action
    drop_action: Action
    written: bool
    slice: str | None = None
    samples: frozenset[str] | None = None
    accepted: str | None = None
    lower_is_better: bool = False
    target: float | None = None

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

    @property
    def title(self) -> str:
        return title_of(self.metric, self.slice)

    def name_of(self, kind: CheckKind) -> str:
        """The name of this rule's check of the kind."""
        base = f"{self.metric}.{kind.value}"
        if self.slice is None:
            return base
        return f"{self.slice}/{base}"

    def check(self, kind: CheckKind, status: Status, action: Action, reason: str) -> Check:
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
    """The rules for a run. `unknown_tags` maps a tag that no sample has to a hint."""

    rules: tuple[Rule, ...]
    unknown_tags: Mapping[str, str]


def resolve_rules(policy: Policy, run: RunScores) -> Resolved:
    """All rules of `policy` for `run`, those over all samples first, sorted by metric name."""
    rules = list(_overall(policy, run))
    by_tag: dict[str, set[str]] = {}
    for sample_id, facts in run.samples.items():
        for tag in facts.tags:
            by_tag.setdefault(tag, set()).add(sample_id)
    unknown: dict[str, str] = {}
    for tag, part in policy.slices.items():
        if tag not in by_tag:
            unknown[tag] = suggestion(tag, by_tag) if by_tag else "No sample of this run has any tag."
            continue
        for name, written in part.metrics.items():
            action = written.action or Action.BLOCK
            rule = _rule(name, written, policy, action, action)
            rule = replace(rule, slice=tag, samples=frozenset(by_tag[tag]))
            rules += [replace(rule, metric=metric) for metric in metrics_of(name, run, part.metrics)]
    return Resolved(tuple(_widened(rule, policy) for rule in rules), unknown)


def _rule(name: str, rule: MetricRule, policy: Policy, floor: Action, drop: Action) -> Rule:
    """The rule that the policy has under `name`, with the actions of its floor and its drop."""
    least = rule.min
    max_drop = rule.max_drop
    lower = policy.lower_is_better(name)
    if rule.max is not None or rule.max_rise is not None:
        least = None if rule.max is None else 1.0 - rule.max
        max_drop = rule.max_rise
    return Rule(name, name, least, max_drop, floor, drop, True, lower_is_better=lower, target=rule.target)


def _widened(rule: Rule, policy: Policy) -> Rule:
    """`rule` with the accepted drop allowed, if that is larger."""
    entry = policy.widened.get((rule.metric, rule.slice))
    if entry is None or rule.max_drop is None or entry.drop <= rule.max_drop:
        return rule
    return replace(rule, max_drop=entry.drop, accepted=entry.id)


def _overall(policy: Policy, run: RunScores) -> Iterator[Rule]:
    for name, written in policy.metrics.items():
        floor = policy.action_for(name, CheckKind.FLOOR, offline_judge=run.offline)
        drop = policy.action_for(name, CheckKind.DROP, offline_judge=run.offline)
        rule = replace(_rule(name, written, policy, floor, drop), written=name in policy.named)
        yield from (replace(rule, metric=metric) for metric in metrics_of(name, run, policy.metrics))
    if not policy.gate.only_named:
        yield from _unnamed(run, policy.metrics)


def _unnamed(run: RunScores, rules: Mapping[str, MetricRule]) -> Iterator[Rule]:
    # By default, all other measured metrics get the default drop. It blocks if no judge is involved: for retrieval
    # metrics, functions of the project, and the scores of another evaluator.
    covered = {metric for name in rules for metric in metrics_of(name, run, rules)}
    for metric in sorted(run.metrics):
        if metric not in covered and not is_relative(metric):
            action = _unnamed_action(metric, run.metrics[metric].version)
            lower = bool(lower_is_better(metric))
            yield Rule(metric, metric, None, DEFAULT_MAX_DROP, action, action, False, lower_is_better=lower)


def _unnamed_action(metric: str, version: str | None) -> Action:
    known = find_metric(metric)
    if known is None:
        if is_rubric(version):
            return Action.WARN
        return Action.BLOCK
    if known.info.blames == "retrieval" and not is_judged(metric):
        return Action.BLOCK
    return Action.WARN


def metrics_of(name: str, run: RunScores, named: Mapping[str, object]) -> list[str]:
    """The metrics of `run` that the rule `name` covers: itself, and its family members without their own rule.

    A member that applies to no sample gives way to one that has scores.
    """
    family = [metric for metric in run.metrics if metric == name or (metric not in named and _family(metric) == name)]
    scored = [metric for metric in family if run.metrics[metric].applies_to]
    return sorted(scored or family) or [name]


def _family(metric: str) -> str | None:
    known = find_metric(metric)
    if known is None:
        return None
    return known.info.family
