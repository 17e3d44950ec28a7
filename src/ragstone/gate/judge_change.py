"""The metrics that the baseline scored in another way, so that their drops can't be
checked."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.evaluation.scores import RunScores
from ragstone.gate.comparability import scoring_differences
from ragstone.gate.observed_judge import observed_difference
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule


def metrics_to_rejudge(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule], policy: Policy
) -> dict[str, str]:
    """The metrics with an allowed drop for which the baseline is to be judged again,
    each with a clause on why; none if the policy does not want that."""
    if policy.gate.on_judge_change != "rejudge":
        return {}
    # Judgements are stored by the name of the judge. If another model has taken that
    # name, its judgements can't be told from the old ones.
    model_change = observed_difference(current, baseline)
    differences = scoring_differences_of_drops(current, baseline, rules)
    return {
        metric: reason
        for metric, reason in differences.items()
        if reason != model_change
    }


def scoring_differences_of_drops(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule]
) -> dict[str, str]:
    """The metrics with an allowed drop that `baseline` scored in another way, each with
    a clause on why."""
    limited = {rule.metric for rule in rules if rule.max_drop is not None}
    reasons = scoring_differences(current, baseline)
    return {metric: reason for metric, reason in reasons.items() if metric in limited}
