"""Findings: everything that is said of a run besides its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

ACCEPT = "accept"
"""The kind of finding that is a command to accept what fails the run."""
CHANGED = "changed"
"""The kind of finding on what changed since the baseline; its data is a `Changed`."""
GOLDEN_SET_CHANGE = "golden_set_change"
"""The kind of finding on what became of the baseline's questions; its data is a
`GoldenSetChange`."""
USAGE = "usage_change"
"""The kind of finding on what an answer takes or costs, in the baseline and now; its
data is a `UsageChange`."""
ORACLE = "oracle"
"""The kind of finding on the shares of retrieval and generation; its data is an
`OracleShares`."""

QUESTIONS = "question_changes"
"""The kind of finding on how many questions got worse and better; its data is a
`QuestionChanges`."""
SENSITIVITY = "sensitivity"
"""The kind of finding on what the golden set could have shown; its data is a
`Sensitivity`."""
STEPS = "step_changes"
"""The kind of finding on which turn, hop or tool broke; its `where` is what to look at,
if that explains most of what got worse."""


class Level(StrEnum):
    """How much a finding matters, the most first."""

    ERROR = "error"
    """A blocking check could not be made."""
    FAILURE = "failure"
    """A blocking check failed."""
    DOUBT = "doubt"
    """A blocking check is inconclusive."""
    ALERT = "alert"
    """A sentence that stands beside line one of every report, whatever the verdict."""
    WARNING = "warning"
    """A sentence at the top of every report: something is not guarded, or needs a
    decision."""
    ASIDE = "aside"
    """A warning that changes nothing about this run."""
    NOTE = "note"
    """A footnote."""
    FACT = "fact"
    """Something with its own place in reports, made from `data`."""
    PASSED = "passed"
    """A check that passed."""


class Finding(Struct, frozen=True):
    """One thing that is said of a run."""

    kind: str
    """The kind of check that it is, or the name under which it is registered."""
    level: Level
    text: str
    """One plain sentence."""
    where: str | None = None
    """The metric, slice, sample, turn, hop or tool that it is about; None if it is
    about the whole run."""
    data: Any = None
    """The numbers behind it."""


def findings(kind: str, level: Level, sentences: Iterable[str]) -> tuple[Finding, ...]:
    """One finding of this kind and level for each sentence."""
    return tuple(Finding(kind, level, sentence) for sentence in sentences)
