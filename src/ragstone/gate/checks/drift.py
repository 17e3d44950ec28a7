"""Has quality been lost slowly, over the history of the main branch?"""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.formatting import bound, change
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind


class Drift(Checker):
    """The losses over the history, which are measured there, with an error rate of their
    own."""

    kinds = (CheckKind.DRIFT,)
    policy_key = ("drift",)

    def evaluate(self, evidence: Evidence) -> Sequence[Check]:
        return evidence.drift

    def result(self, check: Check) -> str:
        if check.estimate is None:
            return ""
        return change(check.estimate)

    def requirement(self, check: Check) -> str:
        if check.threshold is None:
            return ""
        return f"at most {bound(-check.threshold)} lost"
