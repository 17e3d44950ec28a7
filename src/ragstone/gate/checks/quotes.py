"""Do the judge's verdicts rest on words that are in the contexts?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, percent
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class Quotes(Checker):
    """An error if more supported statements are without a quote from the contexts than
    the policy allows; no check if it sets no limit."""

    kinds = (CheckKind.QUOTES,)
    policy_key = ("gate", "max_unquoted")
    heading = "Statements without a quote"
    is_share = True
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        allowed = evidence.policy.gate.max_unquoted
        unquoted, supported, clause = _count_unquoted(evidence)
        if allowed is not None and supported:
            share = unquoted / supported
            yield limit_check(
                "quotes",
                CheckKind.QUOTES,
                Status.PASS if share <= allowed else Status.ERROR,
                f"{clause}; the policy allows this for at most {percent(allowed)}.",
                value=share,
                limit=allowed,
                n=supported,
            )


def quote_notes(evidence: Evidence) -> Iterator[str]:
    """A note on the supported statements without a quote from the contexts."""
    unquoted, _, clause = _count_unquoted(evidence)
    if unquoted:
        yield f"{clause}."


def _count_unquoted(evidence: Evidence) -> tuple[int, int, str]:
    """The number of supported statements without a quote, that of all supported
    statements, and a clause on both."""
    counts = evidence.current.system.verdicts.values()
    unquoted = sum(count.unquoted for count in counts)
    supported = sum(count.supported for count in counts)
    share = percent(unquoted / max(1, supported))
    statements = counted(supported, "supported statement")
    clause = (
        f"For {unquoted:,} of {statements} ({share}), the judge quoted words that are not in the contexts, even when "
        "asked again"
    )
    return unquoted, supported, clause
