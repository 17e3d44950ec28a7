"""Did more questions break than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import percent, some
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.question_changes import (
    MIN_BROKEN,
    QuestionChanges,
    allowed_share,
    question_changes,
)
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class BrokenQuestions(Checker):
    """Fails if more questions broke than are allowed, and clearly more than were
    mended.

    A mean hides them: three of fifteen, or ten that broke while ten others were mended.
    Of a system that always says the same, each is a fact; of another, chance must be
    ruled out, and it is asked again.
    """

    kinds = (CheckKind.QUESTIONS,)
    policy_key = ("gate", "max_broken_questions")
    heading = "Questions that got worse"
    share = True
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        changes = question_changes(evidence)
        if changes is None or not changes.questions:
            return
        broken = len(changes.broken)
        allowed = allowed_share(evidence)
        status = _status(changes, allowed)
        over = is_over(changes, allowed)
        share = broken / changes.questions
        yield Check(
            name="questions.broken",
            kind=CheckKind.QUESTIONS,
            status=status,
            action=Action.BLOCK,
            reason=_reason(changes, status, allowed),
            estimate=share,
            threshold=allowed,
            current=share,
            n=changes.questions,
            p_value=changes.p_value,
            unsettled=over and changes.unsettled,
        )


def is_over(changes: QuestionChanges, allowed: float) -> bool:
    """Whether more questions broke than are allowed, and more than one."""
    broken = len(changes.broken)
    return broken > allowed * changes.questions and broken >= MIN_BROKEN - 1


def _status(changes: QuestionChanges, allowed: float) -> Status:
    broken = len(changes.broken)
    mended = len(changes.mended)
    if not is_over(changes, allowed):
        return Status.PASS
    if changes.shown and broken - mended >= MIN_BROKEN:
        return Status.FAIL
    if changes.suspected:
        return Status.INCONCLUSIVE
    return Status.PASS


def _reason(changes: QuestionChanges, status: Status, allowed: float) -> str:
    named = f": {some(list(changes.broken))}" if changes.broken else ""
    if status is Status.FAIL:
        return f"{changes} (at most {percent(allowed)} may){named}."
    if status is Status.INCONCLUSIVE and changes.shown:
        return f"{changes}{named}."
    if status is Status.INCONCLUSIVE:
        return f"{changes}, which may be chance{named}."
    if len(changes.broken) > allowed * changes.questions:
        return f"{changes}, which chance explains."
    return f"{changes}{named}."
