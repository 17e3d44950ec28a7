"""All that is said of a run beside its checks, in the order in which reports say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ragstone.gate.alignment import alignment_findings
from ragstone.gate.checks.applicability import hardly_applied
from ragstone.gate.checks.planted import planted_warnings
from ragstone.gate.checks.registry import unguarded
from ragstone.gate.citations import citation_findings
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.judge_drift import canary_warnings, model_warnings
from ragstone.gate.question_changes import question_findings
from ragstone.gate.quotes import quote_notes
from ragstone.gate.retrieval_changes import outdated_ids
from ragstone.gate.sensitivity import sensitivity_findings
from ragstone.gate.speed_and_price import usage_findings
from ragstone.gate.step_changes import step_findings
from ragstone.gate.warnings import (
    assumed_directions,
    contexts_of_steps,
    forgotten,
    generated_questions,
    no_longer_applicable,
    permissive,
    uncalled_tools,
    unchecked_preference,
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
    Finder("preference", Level.WARNING, unchecked_preference),
    Finder("conversations", Level.WARNING, forgotten),
    Finder("direction", Level.WARNING, assumed_directions),
    Finder("labels", Level.WARNING, outdated_ids),
    Finder("labels", Level.WARNING, unmatched_ids),
    Finder("tools", Level.WARNING, uncalled_tools),
    Finder("judge_model", Level.WARNING, model_warnings),
    Finder("judge_changed", Level.WARNING, canary_warnings),
    Finder("planted", Level.WARNING, planted_warnings),
    Finder("default_rules", Level.WARNING, permissive),
    Finder("offline_language", Level.WARNING, language_warnings),
    Finder("quotes", Level.NOTE, quote_notes),
    Finder("steps", Level.NOTE, contexts_of_steps),
    Finder("generated", Level.NOTE, generated_questions),
    Finder("applicability", Level.NOTE, no_longer_applicable),
)
"""What yields sentences; a finding whose level depends on the run, or that has data,
comes from a function below."""

FUNCTIONS = (
    step_findings,
    question_findings,
    usage_findings,
    alignment_findings,
    citation_findings,
    sensitivity_findings,
)


def all_findings(evidence: Evidence) -> Iterator[Finding]:
    """The checks of `evidence` and everything else that is found in it."""
    yield from (check.finding for check in evidence.decided)
    for finder in FINDERS:
        yield from finder.find(evidence)
    for function in FUNCTIONS:
        yield from function(evidence)
