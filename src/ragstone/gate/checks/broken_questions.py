"""Did more questions break than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ragstone.formatting import percent, some
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
        if not changes.questions:
            return
        broken = len(changes.broken)
        allowed = allowed_share(evidence)
        share = broken / changes.questions
        is_over = share > allowed and broken >= MIN_BROKEN - 1
        many_more = broken - len(changes.mended) >= MIN_BROKEN
        status = Status.PASS
        limit = ""
        if is_over and changes.shown and many_more:
            status = Status.FAIL
            limit = f" (at most {percent(allowed)} may)"
        elif is_over and changes.suspected:
            status = Status.INCONCLUSIVE
            limit = "" if changes.shown else ", by their number alone perhaps by chance"
        elif share > allowed:
            limit = ", which chance explains"
        named = ""
        if broken:
            named = f": {some(list(changes.broken))}"
        check = limit_check(
            "questions.broken",
            CheckKind.QUESTIONS,
            status,
            f"{changes}{limit}{named}.",
            value=share,
            limit=allowed,
            n=changes.questions,
        )
        unsettled = is_over and changes.unsettled
        yield replace(check, p_value=changes.p_value, unsettled=unsettled)
