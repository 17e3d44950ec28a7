"""Does the judge tell wrong answers from right ones at all?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.rounds.planted import credulity_error, lenience_clause
from ragstone.formatting import counted, join_first
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class PlantedAnswers(Checker):
    """An error if the judge supports every planted wrong answer, since its scores then
    mean nothing.

    If it supports them only with the contexts of some samples, these contexts instruct
    it to: then the documents or the system are to blame, and the run is inconclusive.
    """

    kinds = (CheckKind.PLANTED,)
    policy_key = ()
    heading = "Planted wrong answers"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        manifest = evidence.current.manifest
        planted = evidence.current.rounds.judge.planted
        if planted is None:
            return
        error = None if manifest is None else credulity_error(manifest.judge, planted)
        if error is not None:
            status = Status.ERROR
            reason = f"{error.message} {error.hint}"
        elif planted.steered:
            status = Status.INCONCLUSIVE
            questions = counted(len(planted.steered), "question")
            examples = join_first(list(planted.steered))
            reason = (
                f"the contexts of {questions} make the judge support anything, such as "
                f"sentences about places that do not exist ({examples}): look for instructions in "
                "them."
            )
        else:
            return
        yield Check("planted", CheckKind.PLANTED, status, Action.BLOCK, reason)


def planted_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning that the judge supports some of the planted wrong answers."""
    planted = evidence.current.rounds.judge.planted
    if planted is None or planted.passed == 0:
        return
    if planted.passed < planted.asked + planted.unanswered:
        yield f"The judge is too lenient: {lenience_clause(planted)}. `ragstone calibrate` measures it."
