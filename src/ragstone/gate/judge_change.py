"""A baseline by another judge: which drops it leaves unguarded."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.evaluation.scores import RunScores
from ragstone.gate.comparability import outdated
from ragstone.gate.observed_judge import observed_difference
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule


def to_rejudge(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule], policy: Policy
) -> dict[str, str]:
    """The metrics with an allowed drop for which the baseline is to be judged again,
    each with the reason."""
    if policy.gate.on_judge_change != "rejudge":
        return {}
    # A model that was replaced behind its name has the same identity, so its judgements
    # can't be told apart.
    moved = observed_difference(current, baseline)
    otherwise = scored_otherwise(current, baseline, rules)
    return {name: why for name, why in otherwise.items() if why != moved}


def scored_otherwise(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule]
) -> dict[str, str]:
    """The metrics with an allowed drop that `baseline` scored in another way, each with
    the reason as a clause."""
    drops = {rule.metric for rule in rules if rule.max_drop is not None}
    reasons = outdated(current, baseline)
    return {name: why for name, why in reasons.items() if name in drops}
