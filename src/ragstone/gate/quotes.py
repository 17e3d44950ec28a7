"""What supported statements rest on: words that are not in the contexts, and contexts
that others contradict."""

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
        disputed=sum(count.disputed for count in counts),
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
    """A note on supported statements without a quote, and one on answers with contexts
    that contradict each other."""
    run = evidence.current
    counts = verdict_counts(run)
    if counts.unquoted:
        sentence = unquoted_sentence(counts)
        yield f"{sentence[0].upper()}{sentence[1:]}."
    disputed = sum(count.disputed > 0 for count in run.system.verdicts.values())
    if disputed:
        verb = "rests" if disputed == 1 else "rest"
        yield (
            f"{counted(disputed, 'answer')} {verb} on contexts that other contexts contradict: documents may be out of "
            "date. The scores count these statements as supported."
        )
