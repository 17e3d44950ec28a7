"""Is there a baseline to compare with, scored in the same way?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import differences
from ragstone.gate.evidence import Evidence
from ragstone.gate.judge_change import scored_otherwise
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class Baseline(Checker):
    """A baseline that is missing or can't be compared, where the policy has drops or
    one is required."""

    kinds = (CheckKind.BASELINE,)
    policy_key = ("gate", "on_no_baseline")

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        gate = evidence.policy.gate
        if gate.on_judge_change == "fail":
            difference = self._scoring_difference(evidence)
            if difference:
                yield _check(
                    Status.ERROR,
                    f'{difference}, and the policy says on_judge_change = "fail".',
                )
                return
        required = evidence.baseline_required
        is_needed = required or any(
            rule.max_drop is not None for rule in evidence.rules
        )
        if evidence.compared is not None or not is_needed:
            return
        if gate.on_no_baseline == "pass" and not required:
            return
        why = "there is no baseline to compare with."
        if evidence.pairing is not None:
            why = f"the runs can't be compared: {' '.join(differences(evidence.pairing.comparability))}"
        is_error = required or gate.on_no_baseline == "fail"
        yield _check(Status.ERROR if is_error else Status.INCONCLUSIVE, why)

    def _scoring_difference(self, evidence: Evidence) -> str:
        """How the baseline was scored in another way, for metrics with an allowed drop;
        empty if it was not."""
        baseline = evidence.baseline
        if baseline is None:
            return ""
        reasons = scored_otherwise(evidence.current, baseline, evidence.rules)
        return "; ".join(
            dict.fromkeys(
                reason
                for metric, reason in reasons.items()
                if metric in baseline.metrics
            )
        )


def _check(status: Status, why: str) -> Check:
    return Check("baseline", CheckKind.BASELINE, status, Action.BLOCK, why)
