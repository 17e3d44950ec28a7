"""All kinds of checks, in the order in which a run is checked and a verdict gives its
reasons."""

from __future__ import annotations

from msgspec.structs import replace

from ragstone.gate.checks.agreement import Agreement
from ragstone.gate.checks.answers import Answers, Collapsed, NoAnswer
from ragstone.gate.checks.applicability import Applicability
from ragstone.gate.checks.baseline import Baseline
from ragstone.gate.checks.broken import Broken
from ragstone.gate.checks.broken_questions import BrokenQuestions
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.coverage import Coverage, NothingDecided, Unfinished
from ragstone.gate.checks.drift import Drift
from ragstone.gate.checks.drops import Drops
from ragstone.gate.checks.error_rate import ErrorRate
from ragstone.gate.checks.floors import Floors
from ragstone.gate.checks.golden_set import GoldenSetEdits
from ragstone.gate.checks.must_pass import MustPass
from ragstone.gate.checks.paired import Paired
from ragstone.gate.checks.planted import PlantedAnswers
from ragstone.gate.checks.quotes import Quotes
from ragstone.gate.checks.system_limits import SystemLimits
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check
from ragstone.settings.toml_lines import KeyPath

CHECKERS: tuple[Checker, ...] = (
    NoAnswer(),
    Baseline(),
    GoldenSetEdits(),
    Paired(),
    PlantedAnswers(),
    Quotes(),
    Coverage(),
    Applicability(),
    Agreement(),
    MustPass(),
    Answers(),
    Collapsed(),
    Drift(),
    BrokenQuestions(),
    Floors(),
    Drops(),
    SystemLimits(),
    Broken(),
    ErrorRate(),
    Unfinished(),
    NothingDecided(),
)


def run_checks(evidence: Evidence) -> tuple[Evidence, bool]:
    """`evidence` with the checks decided on it, and whether every checker was run:
    False if a final one ended the decision."""
    for checker in CHECKERS:
        checks = tuple(checker.evaluate(evidence))
        evidence = replace(evidence, checks=(*evidence.checks, *checks))
        if checks and checker.is_final:
            return evidence, False
    return evidence, True


def checker_of(check: Check) -> Checker:
    """The checker that `check` comes from, which words it. Raises KeyError if there is
    none."""
    for checker in CHECKERS:
        if check.kind in checker.kinds:
            return checker
    raise KeyError(check.kind)


def key_of_check(check: Check) -> KeyPath:
    """The key of thresholds.toml behind `check`."""
    return checker_of(check).key(check)
