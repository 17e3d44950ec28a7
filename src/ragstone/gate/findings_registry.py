"""All that is said of a run besides its checks, in the order of reports."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.gate.alignment import alignment_findings
from ragstone.gate.checks.applicability import rarely_applicable_metrics
from ragstone.gate.checks.coverage import unscored_metric_sentences
from ragstone.gate.checks.drops import unchecked_drops
from ragstone.gate.checks.planted import planted_warnings
from ragstone.gate.checks.quotes import quote_notes
from ragstone.gate.checks.system_limits import unchecked_rises
from ragstone.gate.citations import citation_findings
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level, findings
from ragstone.gate.judge_drift import canary_warnings, model_warnings
from ragstone.gate.question_changes import question_findings
from ragstone.gate.retrieval_changes import outdated_ids
from ragstone.gate.sensitivity import sensitivity_findings
from ragstone.gate.speed_and_price import usage_findings
from ragstone.gate.step_changes import step_findings
from ragstone.gate.warnings import (
    contexts_of_steps,
    ignored_history,
    missing_policy,
    no_longer_applicable,
    uncalled_tools,
    unchecked_preference,
    unmatched_ids,
    unscored_rubrics,
    without_contexts,
)
from ragstone.gate.weak_languages import language_warnings

WARNINGS = (
    ("no_contexts", without_contexts),
    ("unguarded", unscored_metric_sentences),
    ("unguarded", unchecked_drops),
    ("unguarded", unchecked_rises),
    ("applicability", rarely_applicable_metrics),
    ("ungraded", unscored_rubrics),
    ("preference", unchecked_preference),
    ("conversations", ignored_history),
    ("labels", outdated_ids),
    ("labels", unmatched_ids),
    ("tools", uncalled_tools),
    ("judge_model", model_warnings),
    ("judge_changed", canary_warnings),
    ("planted", planted_warnings),
    ("default_rules", missing_policy),
    ("offline_language", language_warnings),
)
NOTES = (
    ("quotes", quote_notes),
    ("steps", contexts_of_steps),
    ("applicability", no_longer_applicable),
)
"""The kind of each warning and note, with the function that yields its sentences."""

FINDERS = (
    step_findings,
    question_findings,
    usage_findings,
    alignment_findings,
    citation_findings,
    sensitivity_findings,
)
"""The functions that yield findings whose level depends on the run, or that have
data."""


def all_findings(evidence: Evidence) -> Iterator[Finding]:
    """The checks of `evidence` and everything else that is found in it."""
    yield from (check.finding for check in evidence.checks)
    for kind, find_sentences in WARNINGS:
        yield from findings(kind, Level.WARNING, find_sentences(evidence))
    for kind, find_sentences in NOTES:
        yield from findings(kind, Level.NOTE, find_sentences(evidence))
    for find in FINDERS:
        yield from find(evidence)
