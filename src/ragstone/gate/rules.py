"""The rules of the policy that apply to a run: metric names resolved, families expanded,
and defaults filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import Target, title_of
from ragstone.gate.comparability import is_judged
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import (
    DEFAULT_MAX_DROP,
    OFFLINE_BLOCKING_METRICS,
    MetricRule,
)
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.registry import find_metric, is_relative


class Rule(Struct, frozen=True):
    """The floor and the drop of one metric, over all samples or over those with a
    tag."""

    key: str
    """The name in the policy: the metric, or the family that it is a member of."""
    metric: str
    min: float | None
    """The floor, on a scale on which more is better: 1 − max where less is. None if there
    is none."""
    max_drop: float | None
    """The allowed drop, on that scale: max_rise where less is better. None if drops are
    not checked."""
    floor_action: Action
    drop_action: Action
    written: bool
    """Whether the policy names the metric, so that it must have scores."""
    slice: str | None = None
    """The tag of the samples that the rule covers; None for all samples."""
    samples: frozenset[str] | None = None
    """The ids of the samples that the rule covers; None for all samples."""
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
        """Those of the samples `ids` that the rule covers."""
        if self.samples is None:
            return tuple(ids)
        return tuple(sample_id for sample_id in ids if sample_id in self.samples)

    @property
    def place(self) -> Target:
        """The metric and the slice of the rule."""
        return self.metric, self.slice

    @property
    def title(self) -> str:
        return title_of(self.metric, self.slice)

    def name_of(self, kind: CheckKind) -> str:
        """The name of this rule's check of the kind: ``de/mrr.floor``."""
        name = f"{self.metric}.{kind.value}"
        if self.slice is None:
            return name
        return f"{self.slice}/{name}"

    def check(
        self, kind: CheckKind, status: Status, action: Action, reason: str
    ) -> Check:
        """A check of this rule. `reason` leaves out the metric, which is put before
        it."""
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
    """All rules of `policy` for `run`, those over all samples first. A tag that no
    sample has brings none.

    `offline` is whether the offline judge scores the run; by default, what the run
    says.
    """
    if offline is None:
        offline = run.offline
    rules: list[Rule] = []
    rules_in_force = policy.rules_in_force
    for name, table in rules_in_force.items():
        rule = _rule_of_table(name, table, policy)
        if name not in policy.metrics:
            rule = _with_default_actions(rule, offline=offline)
        members = metrics_of(name, run, rules_in_force)
        rules += [replace(rule, metric=metric) for metric in members]
    if not policy.gate.only_named:
        metrics_with_rules = {rule.metric for rule in rules}
        unnamed = sorted(run.metrics.keys() - metrics_with_rules)
        rules += [
            _default_drop(metric, policy, run)
            for metric in unnamed
            if not is_relative(metric)
        ]
    for tag, part in policy.slices.items():
        samples = frozenset(
            sample_id for sample_id, facts in run.samples.items() if tag in facts.tags
        )
        if not samples:
            continue
        for name, table in part.metrics.items():
            whole_rule = _rule_of_table(name, table, policy)
            rule = replace(whole_rule, slice=tag, samples=samples)
            members = metrics_of(name, run, part.metrics)
            rules += [replace(rule, metric=metric) for metric in members]
    return tuple(_with_accepted_drop(rule, policy) for rule in rules)


def _with_accepted_drop(rule: Rule, policy: Policy) -> Rule:
    """`rule` with the drop that is accepted for it, if that is more than it allows."""
    entry = policy.accepted_in_force.get(rule.place)
    max_drop = rule.max_drop
    if entry is None or max_drop is None or entry.drop <= max_drop:
        return rule
    return replace(rule, max_drop=entry.drop, accepted=entry.id)


def _rule_of_table(name: str, table: MetricRule, policy: Policy) -> Rule:
    """The rule of the table `name` in the policy."""
    floor = table.min
    if table.max is not None:
        floor = 1.0 - table.max
    max_drop = table.max_drop
    if table.max_rise is not None:
        max_drop = table.max_rise
    action = table.action or Action.BLOCK
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


def _with_default_actions(rule: Rule, *, offline: bool) -> Rule:
    """`rule` of a headline metric that the policy does not name. With the offline
    judge, only the drops of `OFFLINE_BLOCKING_METRICS` block."""
    floor_action = Action.WARN if offline else Action.BLOCK
    drop_action = Action.BLOCK if rule.key in OFFLINE_BLOCKING_METRICS else floor_action
    return replace(
        rule, floor_action=floor_action, drop_action=drop_action, written=False
    )


def _default_drop(metric: str, policy: Policy, run: RunScores) -> Rule:
    """The default drop of a measured metric that neither the policy nor its defaults
    name.

    It blocks if no judge is involved: for retrieval metrics, functions of the project,
    and the scores of another evaluator.
    """
    built_in = find_metric(metric)
    version = run.metrics[metric].version
    needs_judge = is_rubric(version)
    if built_in is not None:
        is_of_retrieval = built_in.info.blames == "retrieval"
        needs_judge = not is_of_retrieval or is_judged(metric)
    action = Action.WARN if needs_judge else Action.BLOCK
    table = MetricRule(max_drop=DEFAULT_MAX_DROP, action=action)
    return replace(_rule_of_table(metric, table, policy), written=False)


def metrics_of(
    name: str, run: RunScores, ruled_metrics: Mapping[str, object]
) -> list[str]:
    """The metrics of `run` that the rule `name` covers, sorted: the metric of that name,
    and the members of that family without a rule among `ruled_metrics`.

    Those that apply to no sample are left out if others do. If `run` has none of them,
    `name` itself.
    """
    family = []
    for metric in run.metrics:
        built_in = find_metric(metric)
        is_member = built_in is not None and built_in.info.family == name
        if metric == name or (is_member and metric not in ruled_metrics):
            family.append(metric)
    scored = [metric for metric in family if run.metrics[metric].applies_to]
    return sorted(scored or family) or [name]
