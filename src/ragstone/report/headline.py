"""Line one of every report: what happened, in how many answers, and whether it
blocks."""

from __future__ import annotations

from ragstone.formatting import bound
from ragstone.gate.accepted import title_of
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.question_changes import MIN_QUESTIONS
from ragstone.gate.verdict import GateVerdict
from ragstone.report.templates import PACKAGE, text_environment


def headline_of(
    verdict: GateVerdict, *, samples: int, answers: int = 1, advisory: bool = False
) -> tuple[str, str]:
    """What happened and whether it blocks, which may end with a colon, and the fact
    behind it; of `verdict` on `samples` samples, each asked `answers` times. Pure.

    `advisory`: the job goes on whatever the verdict, because of `fail_on`; only an
    error ends it.
    """
    status = verdict.status
    attribution = verdict.explanation.attribution
    cause = None if attribution is None else attribution.cause
    template = text_environment(PACKAGE).get_template("headline.txt.j2")
    line_one = template.make_module(
        {
            "verdict": verdict,
            "status": status,
            "ending": [
                check
                for check in verdict.checks
                if check.blocks and check.status is status
            ],
            "cause": cause,
            "cause_texts": None if cause is None else catalogue()[Cause(cause.cause)],
            "samples": samples,
            "answers": answers,
            "advisory": advisory,
        }
    )
    return str(vars(line_one)["lead"]), str(vars(line_one)["fact"])


text_environment(PACKAGE).filters.update(bound=bound, title_of=title_of)
text_environment(PACKAGE).globals.update(MIN_QUESTIONS=MIN_QUESTIONS)
