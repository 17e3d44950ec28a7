"""Citations of contexts that there are none of: broken where the run proves how it
numbers them, else only remarked."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.scores import RunScores
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level

MIN_CITING = 5
"""Fewer answers with citations prove nothing."""
MIN_RESOLVED = 0.75
"""The share of the answers with citations that cite nothing but positions and ids, from
which on that is the numbering.

Where it is less, the numbers may be those of documents, or of contexts that the system
doesn't return.
"""


def false_citations(run: RunScores) -> frozenset[str]:
    """The samples that cite neither positions nor ids of their contexts, in a run that
    proves its numbering."""
    return _unresolved(run) if _is_numbered(run) else frozenset()


def citation_findings(evidence: Evidence) -> Iterator[Finding]:
    """A note on citations that can't be resolved; a warning if the baseline's can."""
    unresolved = _unresolved(evidence.current)
    if not unresolved or _is_numbered(evidence.current):
        return
    level = Level.NOTE
    baseline = evidence.baseline
    if evidence.is_compared and (_is_numbered(baseline) or not _unresolved(baseline)):
        level = Level.WARNING
    count = len(unresolved)
    yield Finding(
        "citations",
        level,
        f"Answers with numbers that are neither positions nor ids of the returned contexts: {count}. "
        "These citations are not checked. Return each context with the id that answers cite.",
    )


def _unresolved(run: RunScores) -> frozenset[str]:
    return frozenset(
        name for name, is_resolved in run.system.citations.items() if not is_resolved
    )


def _is_numbered(run: RunScores) -> bool:
    citing = len(run.system.citations)
    unresolved = len(_unresolved(run))
    resolved = citing - unresolved
    enough = MIN_RESOLVED * citing
    return citing >= MIN_CITING and resolved >= enough
