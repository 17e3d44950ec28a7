"""Did more questions break than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ragstone.formatting import join_first, percent
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.question_changes import (
    MIN_BROKEN,
    allowed_share,
    question_changes,
)
from ragstone.gate.verdict import Check, CheckKind, Status


class BrokenQuestions(Checker):
    """Fails if more questions broke than are allowed, and clearly more than were
    mended.

    A mean hides three of fifteen that broke, or ten that broke while ten others were
    mended. If the system always says the same, each broken question is a fact. If it
    varies, it is asked again, and the check fails only if chance is ruled out.
    """

    kinds = (CheckKind.QUESTIONS,)
    policy_key = ("gate", "max_broken_questions")
    heading = "Questions that got worse"
    is_share = True
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        changes = question_changes(evidence)
        if not changes.paired:
            return
        broken = len(changes.broken)
        allowed = allowed_share(evidence)
        share = broken / changes.paired
        # One question less than fails a run may be the first sign of a loss.
        is_over = share > allowed and broken >= MIN_BROKEN - 1
        is_clearly_more = broken - len(changes.mended) >= MIN_BROKEN
        status = Status.PASS
        limit = ""
        if is_over and changes.is_shown and is_clearly_more:
            status = Status.FAIL
            limit = f" (at most {percent(allowed)} may)"
        elif is_over and changes.is_suspected:
            status = Status.INCONCLUSIVE
            # What is shown needs no doubt: nearly as many were mended.
            if not changes.is_shown:
                limit = ", by their number alone perhaps by chance"
        elif share > allowed:
            limit = ", which chance explains"
        examples = ""
        if broken:
            examples = f": {join_first(list(changes.broken))}"
        check = limit_check(
            "questions.broken",
            CheckKind.QUESTIONS,
            status,
            f"{changes}{limit}{examples}.",
            value=share,
            limit=allowed,
            n=changes.paired,
        )
        unsettled = is_over and changes.is_unsettled
        yield replace(check, p_value=changes.p_value, unsettled=unsettled)
