"""Do the judge's verdicts rest on words that are in the contexts?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import percent
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.quotes import unquoted_sentence, verdict_counts
from ragstone.gate.verdict import Check, CheckKind, Status


class Quotes(Checker):
    """An error if the policy demands quotes, and more supported statements have none
    than it allows."""

    kinds = (CheckKind.QUOTES,)
    policy_key = ("gate", "max_unquoted")
    heading = "Statements without a quote"
    share = True
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        allowed = evidence.policy.gate.max_unquoted
        counts = verdict_counts(evidence.current)
        if allowed is None or not counts.supported:
            return
        share = counts.unquoted / counts.supported
        status = Status.PASS if share <= allowed else Status.ERROR
        reason = (
            f"{unquoted_sentence(counts)}; at most {percent(allowed)} may have none."
        )
        yield limit_check(
            "quotes",
            CheckKind.QUOTES,
            status,
            reason,
            value=share,
            limit=allowed,
            n=counts.supported,
        )
