"""All that is said of a run beside its checks, in the order in which reports say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ragstone.gate.alignment import alignment_findings
from ragstone.gate.checks.applicability import hardly_applied
from ragstone.gate.checks.planted import planted_warnings
from ragstone.gate.checks.registry import unguarded
from ragstone.gate.citations import citation_notes, citation_warnings
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.judge_drift import (
    canary_notes,
    canary_warnings,
    fingerprint_notes,
    model_warnings,
)
from ragstone.gate.preference import preference_notes, preference_warnings
from ragstone.gate.question_changes import question_findings
from ragstone.gate.quotes import quote_notes
from ragstone.gate.retrieval_changes import retrieval_notes, retrieval_warnings
from ragstone.gate.sensitivity import sensitivity_findings
from ragstone.gate.speed_and_price import usage_findings
from ragstone.gate.stability import stability_notes
from ragstone.gate.step_changes import step_findings
from ragstone.gate.tool_names import step_notes, tool_warnings
from ragstone.gate.warnings import (
    assumed_directions,
    footnotes,
    forgotten,
    permissive,
    ungraded,
    unmatched_ids,
    without_contexts,
)
from ragstone.gate.weak_languages import language_warnings


@dataclass(frozen=True, slots=True)
class Finder:
    """Makes findings of one kind and level from sentences about the evidence."""

    kind: str
    level: Level
    sentences: Callable[[Evidence], Iterable[str]]

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """The findings in the evidence. Pure."""
        for sentence in self.sentences(evidence):
            yield Finding(self.kind, self.level, sentence)


FINDERS = (
    Finder("no_contexts", Level.WARNING, without_contexts),
    Finder("unguarded", Level.WARNING, unguarded),
    Finder("applicability", Level.WARNING, hardly_applied),
    Finder("ungraded", Level.WARNING, ungraded),
    Finder("preference", Level.WARNING, preference_warnings),
    Finder("conversations", Level.WARNING, forgotten),
    Finder("direction", Level.WARNING, assumed_directions),
    Finder("labels", Level.WARNING, retrieval_warnings),
    Finder("labels", Level.WARNING, unmatched_ids),
    Finder("tools", Level.WARNING, tool_warnings),
    Finder("citations", Level.WARNING, citation_warnings),
    Finder("judge_model", Level.WARNING, model_warnings),
    Finder("judge_changed", Level.WARNING, canary_warnings),
    Finder("planted", Level.WARNING, planted_warnings),
    Finder("default_rules", Level.WARNING, permissive),
    Finder("offline_language", Level.WARNING, language_warnings),
    Finder("retrieval", Level.NOTE, retrieval_notes),
    Finder("judge_changed", Level.NOTE, canary_notes),
    Finder("judge_backend", Level.NOTE, fingerprint_notes),
    Finder("stability", Level.NOTE, stability_notes),
    Finder("preference", Level.NOTE, preference_notes),
    Finder("citations", Level.NOTE, citation_notes),
    Finder("quotes", Level.NOTE, quote_notes),
    Finder("steps", Level.NOTE, step_notes),
    Finder("footnote", Level.NOTE, footnotes),
)
"""What yields sentences; a finding whose level depends on the run, or that has data,
comes from a function below."""

FUNCTIONS = (
    step_findings,
    question_findings,
    usage_findings,
    alignment_findings,
    sensitivity_findings,
)


def all_findings(evidence: Evidence) -> Iterator[Finding]:
    """The checks of `evidence` and everything else that is found in it."""
    yield from (check.finding for check in evidence.decided)
    for finder in FINDERS:
        yield from finder.find(evidence)
    for function in FUNCTIONS:
        yield from function(evidence)
