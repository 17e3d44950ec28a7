"""Writes line one of every report: what happened, in how many answers, and whether it
blocks."""

from __future__ import annotations

from msgspec import Struct

from ragstone.formatting import bound
from ragstone.gate.accepted import title_of
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.question_changes import MIN_QUESTIONS
from ragstone.gate.verdict import GateVerdict
from ragstone.report.templates import PACKAGE, text_environment


class Headline(Struct, frozen=True):
    """Line one of a report, in two parts."""

    lead: str
    """What happened, and whether it blocks; may end with a colon."""
    fact: str
    """In how many answers, or by how much."""


def headline_of(
    verdict: GateVerdict,
    *,
    sample_count: int,
    answers_per_sample: int = 1,
    is_advisory: bool = False,
) -> Headline:
    """Return line one for `verdict`.

    If it `is_advisory`, the job goes on whatever the verdict, because of `fail_on`; only
    an error ends it.
    """
    status = verdict.status
    attribution = verdict.explanation.attribution
    cause_count = None if attribution is None else attribution.cause
    template = text_environment(PACKAGE).get_template("headline.txt.j2")
    # The template sets two variables, and prints nothing.
    module = template.make_module(
        {
            "verdict": verdict,
            "status": status,
            "deciding_checks": [
                check
                for check in verdict.checks
                if check.blocks and check.status is status
            ],
            "cause": cause_count,
            "cause_texts": None
            if cause_count is None
            else catalogue()[Cause(cause_count.cause)],
            "sample_count": sample_count,
            "answers_per_sample": answers_per_sample,
            "is_advisory": is_advisory,
        }
    )
    variables = vars(module)
    return Headline(str(variables["lead"]), str(variables["fact"]))


# All templates of this package share one environment.
text_environment(PACKAGE).filters.update(bound=bound, title_of=title_of)
text_environment(PACKAGE).globals.update(MIN_QUESTIONS=MIN_QUESTIONS)
