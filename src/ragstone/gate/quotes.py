"""Supported statements for which the judge quoted words that are not in the contexts."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.scores import RunScores, VerdictCounts
from ragstone.formatting import counted, percent
from ragstone.gate.evidence import Evidence


def verdict_counts(run: RunScores) -> VerdictCounts:
    """The counts of all first answers together."""
    counts = run.system.verdicts.values()
    return VerdictCounts(
        supported=sum(count.supported for count in counts),
        unquoted=sum(count.unquoted for count in counts),
    )


def unquoted_sentence(counts: VerdictCounts) -> str:
    """How many of the supported statements have no quote."""
    share = percent(counts.unquoted / counts.supported)
    statements = counted(counts.supported, "supported statement")
    return (
        f"for {counts.unquoted:,} of {statements} ({share}), the judge quoted words that are not in the contexts, also "
        "when asked again"
    )


def quote_notes(evidence: Evidence) -> Iterator[str]:
    """A note on supported statements without a quote."""
    counts = verdict_counts(evidence.current)
    if counts.unquoted:
        sentence = unquoted_sentence(counts)
        yield f"{sentence[0].upper()}{sentence[1:]}."
