"""Do the judge's verdicts rest on words that are in the contexts?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, percent
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
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
        unquoted, supported, sentence = _unquoted(evidence)
        if allowed is not None and supported:
            share = unquoted / supported
            yield limit_check(
                "quotes",
                CheckKind.QUOTES,
                Status.PASS if share <= allowed else Status.ERROR,
                f"{sentence}; at most {percent(allowed)} may have none.",
                value=share,
                limit=allowed,
                n=supported,
            )


def quote_notes(evidence: Evidence) -> Iterator[str]:
    """A note on supported statements without a quote."""
    unquoted, _, sentence = _unquoted(evidence)
    if unquoted:
        yield f"{sentence}."


def _unquoted(evidence: Evidence) -> tuple[int, int, str]:
    """The supported statements without a quote, all that are supported, and both in
    words."""
    counts = evidence.current.system.verdicts.values()
    unquoted = sum(count.unquoted for count in counts)
    supported = sum(count.supported for count in counts)
    share = percent(unquoted / max(1, supported))
    statements = counted(supported, "supported statement")
    return (
        unquoted,
        supported,
        f"For {unquoted:,} of {statements} ({share}), the judge quoted words that are not in the contexts, also when "
        "asked again",
    )
