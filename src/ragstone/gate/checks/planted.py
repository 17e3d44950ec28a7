"""Does the judge tell wrong answers from right ones at all?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.rounds.planted import credulous, lenient
from ragstone.formatting import counted, some
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class PlantedAnswers(Checker):
    """An error if every planted wrong answer passed: then the scores of the others mean
    nothing either.

    If they pass only with the contexts of some samples, those order the judge to
    support everything: that is the doing of the documents or of the system, and the run
    is inconclusive.
    """

    kinds = (CheckKind.PLANTED,)
    policy_key = ()
    heading = "Planted wrong answers"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        current = evidence.current
        error = (
            None
            if current.manifest is None
            else credulous(current.manifest.judge, current.rounds.judge.planted)
        )
        steered = _steered(evidence)
        if error is not None:
            yield Check(
                "planted",
                CheckKind.PLANTED,
                Status.ERROR,
                Action.BLOCK,
                f"{error.message} {error.hint}",
            )
        elif steered:
            reason = (
                f"the contexts of {counted(len(steered), 'question')} make the judge support anything, such as "
                f"sentences about places that do not exist ({some(list(steered))}): look for instructions in them."
            )
            yield Check(
                "planted", CheckKind.PLANTED, Status.INCONCLUSIVE, Action.BLOCK, reason
            )


def _steered(evidence: Evidence) -> tuple[str, ...]:
    planted = evidence.current.rounds.judge.planted
    if planted is None:
        return ()
    return planted.steered


def planted_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that the judge let some of the planted answers pass."""
    planted = evidence.current.rounds.judge.planted
    if planted is None or planted.passed == 0:
        return
    if planted.passed < planted.asked + planted.unanswered:
        yield f"The judge is too lenient: {lenient(planted)}. `ragstone calibrate` measures it."
