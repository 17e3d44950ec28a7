"""Answers that cite something else than their contexts.

A number such as [3] may be a position in the contexts, or the id of a context. A run in
which most answers cite nothing else proves that its system numbers citations this way:
there, any other number is a broken answer. Elsewhere it is only remarked on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level

MIN_CITING_ANSWERS = 5
"""Fewer answers with citations prove nothing about the numbering."""
MIN_RESOLVED_SHARE = 0.75
"""The least share of the answers with citations that must cite nothing but positions
and ids to prove the numbering.

Where it is less, the numbers may be those of documents, or of contexts that the system
doesn't return.
"""


def false_citations(run: RunScores) -> frozenset[str]:
    """The samples with a citation that is neither the position nor the id of one of
    their contexts; empty if the run does not prove its numbering."""
    return _unresolved(run) if _proves_numbering(run) else frozenset()


def citation_findings(evidence: Evidence) -> Iterator[Finding]:
    """A note on citations that can't be resolved, in a run that does not prove its
    numbering.

    It is a warning if the baseline proves its numbering, or cites nothing that can't be
    resolved: then the change brought this about.
    """
    unresolved = _unresolved(evidence.current)
    if not unresolved or _proves_numbering(evidence.current):
        return
    level = Level.NOTE
    baseline = evidence.baseline
    is_resolved_before = _proves_numbering(baseline) or not _unresolved(baseline)
    if evidence.is_compared and is_resolved_before:
        level = Level.WARNING
    answers = counted(len(unresolved), "answer")
    yield Finding(
        "citations",
        level,
        f"The citations of {answers} are not checked: they are neither positions nor ids of the returned contexts. "
        "Return each context with the id that answers cite.",
    )


def _unresolved(run: RunScores) -> frozenset[str]:
    """The samples with a citation that is none of their contexts."""
    return frozenset(
        sample_id
        for sample_id, is_resolved in run.system.citations.items()
        if not is_resolved
    )


def _proves_numbering(run: RunScores) -> bool:
    """Whether enough answers cite nothing but positions and ids of their contexts."""
    citing = len(run.system.citations)
    resolved = citing - len(_unresolved(run))
    return citing >= MIN_CITING_ANSWERS and resolved >= MIN_RESOLVED_SHARE * citing
