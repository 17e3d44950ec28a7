"""Findings: everything that is said of a run beside its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

ACCEPT = "accept"
"""The kind of a command that accepts what fails the run."""
CHANGED = "changed"
"""The kind of what is not as it was in the baseline; its data is a `Changed`."""
GOLDEN_SET_CHANGE = "golden_set_change"
"""The kind of what became of the baseline's questions; its data is a
`GoldenSetChange`."""
USAGE = "usage_change"
"""The kind of what an answer took or cost in the baseline, and does now; its data is a
`UsageChange`."""
ORACLE = "oracle"
"""The kind of the shares of retrieval and generation; its data are `OracleShares`."""

QUESTIONS = "question_changes"
"""The kind of how many questions got worse and better; its data are
`QuestionChanges`."""
SENSITIVITY = "sensitivity"
"""The kind of what the golden set could have shown; its data is a `Sensitivity`."""
STEPS = "step_changes"
"""The kind of which turn, hop or tool broke; `where` is what to look at, if it explains
most of what got worse."""


class Level(StrEnum):
    """How much a finding matters, the most first."""

    ERROR = "error"
    """A blocking check could not be made."""
    FAILURE = "failure"
    """A blocking check failed."""
    DOUBT = "doubt"
    """A blocking check is inconclusive."""
    ALERT = "alert"
    """Stands beside line one of every report, whatever the verdict."""
    WARNING = "warning"
    """Stands at the top of every report: something is not guarded, or needs a
    decision."""
    ASIDE = "aside"
    """A warning that changes nothing about this run."""
    NOTE = "note"
    """A footnote."""
    FACT = "fact"
    """Has its own place in reports, made from `data`."""
    PASSED = "passed"
    """A check that passed."""


class Finding(Struct, frozen=True):
    """One thing that is said of a run."""

    kind: str
    """What found it: a kind of check, or a name of the registry."""
    level: Level
    text: str
    """One plain sentence."""
    where: str | None = None
    """The metric, slice, sample, turn, hop or tool that it is about, if it is about
    one."""
    data: Any = None
    """The numbers behind it."""


def findings(kind: str, level: Level, sentences: Iterable[str]) -> tuple[Finding, ...]:
    """A finding of this kind and level for each of the sentences."""
    return tuple(Finding(kind, level, sentence) for sentence in sentences)
