"""Citations of contexts that there are none of: broken where the run proves how it
numbers them, else only remarked."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.evidence import Evidence

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
    if _is_numbered(run):
        return _unresolved(run)
    return frozenset()


def citation_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning about citations that can't be resolved, and could be, or were not
    there, in the baseline."""
    if evidence.compared is not None and not _has_unknown_numbers(
        evidence.compared.baseline
    ):
        yield from _sentences(evidence.current)


def citation_notes(evidence: Evidence) -> Iterator[str]:
    """A note on citations that can't be resolved and never could."""
    if evidence.compared is None or _has_unknown_numbers(evidence.compared.baseline):
        yield from _sentences(evidence.current)


def _sentences(run: RunScores) -> Iterator[str]:
    if not _has_unknown_numbers(run):
        return
    n = len(_unresolved(run))
    yield (
        f"{counted(n, 'answer')} {'cites' if n == 1 else 'cite'} numbers that are neither positions nor ids of the "
        "returned contexts: these citations are not checked. Return each context with the id that answers cite."
    )


def _has_unknown_numbers(run: RunScores) -> bool:
    return bool(_unresolved(run)) and not _is_numbered(run)


def _unresolved(run: RunScores) -> frozenset[str]:
    return frozenset(
        name for name, is_resolved in run.system.citations.items() if not is_resolved
    )


def _is_numbered(run: RunScores) -> bool:
    citing = len(run.system.citations)
    resolved = citing - len(_unresolved(run))
    return citing >= MIN_CITING and resolved >= MIN_RESOLVED * citing
