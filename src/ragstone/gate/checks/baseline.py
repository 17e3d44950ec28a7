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
        required = evidence.baseline_required
        status = Status.INCONCLUSIVE
        if required or gate.on_no_baseline == "fail":
            status = Status.ERROR
        is_needed = any(rule.max_drop is not None for rule in evidence.rules)
        why = ""
        if gate.on_judge_change == "fail":
            baseline = evidence.baseline
            reasons = scored_otherwise(evidence.current, baseline, evidence.rules)
            measured = dict.fromkeys(
                why for name, why in reasons.items() if name in baseline.metrics
            )
            why = "; ".join(measured)
        if why:
            status = Status.ERROR
            why += ', and the policy says on_judge_change = "fail".'
        elif evidence.is_compared or (
            not required and (gate.on_no_baseline == "pass" or not is_needed)
        ):
            return
        elif not evidence.has_baseline:
            why = "there is no baseline to compare with."
        else:
            why = (
                f"the runs can't be compared: {' '.join(differences(evidence.pairing))}"
            )
        yield Check("baseline", CheckKind.BASELINE, status, Action.BLOCK, why)
