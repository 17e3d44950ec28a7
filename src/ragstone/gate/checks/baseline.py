"""Is there a baseline to compare with, scored in the same way?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import differences
from ragstone.gate.evidence import Evidence
from ragstone.gate.judge_change import scoring_differences_of_drops
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class Baseline(Checker):
    """A baseline that is missing or can't be compared, where the policy has drops or
    one is required."""

    kinds = (CheckKind.BASELINE,)
    policy_key = ("gate", "on_no_baseline")

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        gate = evidence.policy.gate
        is_required = evidence.baseline_required
        has_drops = any(rule.max_drop is not None for rule in evidence.rules)
        is_needed = is_required or (has_drops and gate.on_no_baseline != "pass")
        status = Status.INCONCLUSIVE
        if is_required or gate.on_no_baseline == "fail":
            status = Status.ERROR
        scoring_change = ""
        if gate.on_judge_change == "fail":
            scoring_change = _scoring_change(evidence)
        if scoring_change:
            status = Status.ERROR
            reason = (
                f'{scoring_change}, and the policy has on_judge_change = "fail". Evaluate the baseline again, or '
                'set it to "rejudge" to score the answers of the baseline again.'
            )
        elif evidence.is_compared or not is_needed:
            return
        elif not evidence.has_baseline:
            reason = "there is no baseline to compare with."
        else:
            sentences = " ".join(differences(evidence.pairing))
            reason = f"the runs can't be compared: {sentences}"
        yield Check("baseline", CheckKind.BASELINE, status, Action.BLOCK, reason)


def _scoring_change(evidence: Evidence) -> str:
    """How the baseline was scored differently in metrics with an allowed drop: by
    another judge, or in another version of the metric. Empty if it was not."""
    reasons = scoring_differences_of_drops(
        evidence.current, evidence.baseline, evidence.rules
    )
    measured = evidence.baseline.metrics
    clauses = [reason for metric, reason in reasons.items() if metric in measured]
    return "; ".join(dict.fromkeys(clauses))
