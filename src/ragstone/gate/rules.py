"""Which rules of the policy apply to a run: resolves names, expands families, fills in
defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import Target, title_of
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, OFFLINE_BLOCKS, MetricRule
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.registry import find_metric, is_relative


class Rule(Struct, frozen=True):
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
        if self.min is not None and self.floor_action is Action.BLOCK:
            return Action.BLOCK
        if self.max_drop is not None and self.drop_action is Action.BLOCK:
            return Action.BLOCK
        return Action.WARN

    def covered(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the samples that it is about."""
        samples = self.samples
        return tuple(name for name in ids if samples is None or name in samples)

    @property
    def place(self) -> Target:
        """The metric and the slice that it is about."""
        return self.metric, self.slice

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


def resolve_rules(
    policy: Policy, run: RunScores, *, offline: bool | None = None
) -> tuple[Rule, ...]:
    """All rules of `policy` for `run`, those over all samples first, sorted by metric
    name. A tag that no sample has brings none.

    `offline` is whether the offline judge scores the run, if that is not what it says.
    """
    if offline is None:
        offline = run.offline
    rules: list[Rule] = []
    in_force = policy.in_force
    for name, written in in_force.items():
        rule = _rule(name, written, policy)
        if name not in policy.metrics:
            rule = _by_default(rule, offline=offline)
        members = metrics_of(name, run, in_force)
        rules += [replace(rule, metric=metric) for metric in members]
    if not policy.gate.only_named:
        named = {rule.metric for rule in rules}
        unnamed = sorted(run.metrics.keys() - named)
        rules += [
            _unnamed(metric, policy, run)
            for metric in unnamed
            if not is_relative(metric)
        ]
    for tag, part in policy.slices.items():
        samples = frozenset(
            name for name, facts in run.samples.items() if tag in facts.tags
        )
        if not samples:
            continue
        for name, written in part.metrics.items():
            whole_rule = _rule(name, written, policy)
            rule = replace(whole_rule, slice=tag, samples=samples)
            members = metrics_of(name, run, part.metrics)
            rules += [replace(rule, metric=metric) for metric in members]
    return tuple(_widened(rule, policy) for rule in rules)


def _widened(rule: Rule, policy: Policy) -> Rule:
    """`rule` with the drop that is accepted for it, if that is larger."""
    entry = policy.widened.get(rule.place)
    max_drop = rule.max_drop
    if entry is None or max_drop is None or entry.drop <= max_drop:
        return rule
    return replace(rule, max_drop=entry.drop, accepted=entry.id)


def _rule(name: str, written: MetricRule, policy: Policy) -> Rule:
    """The rule that the policy has under `name`."""
    floor = written.min
    if written.max is not None:
        floor = 1.0 - written.max
    max_drop = written.max_drop
    if written.max_rise is not None:
        max_drop = written.max_rise
    action = written.action or Action.BLOCK
    return Rule(
        key=name,
        metric=name,
        min=floor,
        max_drop=max_drop,
        floor_action=action,
        drop_action=action,
        written=True,
        lower_is_better=policy.lower_is_better(name),
    )


def _by_default(rule: Rule, *, offline: bool) -> Rule:
    """A headline metric's rule that nobody wrote: of the offline judge, only drops of
    `OFFLINE_BLOCKS` block."""
    floor_action = Action.WARN if offline else Action.BLOCK
    drop_action = Action.BLOCK if rule.key in OFFLINE_BLOCKS else floor_action
    return replace(
        rule, floor_action=floor_action, drop_action=drop_action, written=False
    )


def _unnamed(metric: str, policy: Policy, run: RunScores) -> Rule:
    """The default drop, which all other measured metrics get.

    It blocks if no judge is involved: for retrieval metrics, functions of the project,
    and the scores of another evaluator.
    """
    built_in = find_metric(metric)
    version = run.metrics[metric].version
    warns = is_rubric(version)
    if built_in is not None:
        is_of_retrieval = built_in.info.blames == "retrieval"
        warns = not is_of_retrieval or is_judged(metric)
    action = Action.WARN if warns else Action.BLOCK
    written = MetricRule(max_drop=DEFAULT_MAX_DROP, action=action)
    return replace(_rule(metric, written, policy), written=False)


def metrics_of(name: str, run: RunScores, named: Mapping[str, object]) -> list[str]:
    """The metrics of `run` that the rule `name` covers: itself, and its family members
    without their own rule.

    A member that applies to no sample gives way to one that has scores.
    """
    family = []
    for metric in run.metrics:
        built_in = find_metric(metric)
        is_member = built_in is not None and built_in.info.family == name
        if metric == name or (is_member and metric not in named):
            family.append(metric)
    scored = [metric for metric in family if run.metrics[metric].applies_to]
    return sorted(scored or family) or [name]
