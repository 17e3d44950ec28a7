"""Rubrics: the user's own questions about an answer, which a language model answers
with one of a few levels."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Grade
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import NO_TEXTS, Response

Seen = Literal["question", "answer", "contexts", "reference"]

YES_NO = ("no", "yes")
"""The levels of a rubric that describes none."""

NO_MODEL = "a rubric needs a language model, but the {} uses none"
EMPTY = "the answer is empty"


class Rubric(Struct, frozen=True):
    """A question about an answer. `levels` describe the possible grades, worst first;
    `sees` is what the judge sees.

    Level i of k (from 0) has the value i ÷ (k − 1).
    """

    name: str
    text: str
    levels: tuple[str, ...] = YES_NO
    sees: tuple[Seen, ...] = ("question", "answer")

    def grade(self, level: int) -> Grade:
        """The grade of a level, from 0."""
        return Grade(
            level / (len(self.levels) - 1),
            f"{level + 1} of {len(self.levels)}: {self.levels[level]}",
        )


class RubricTexts(Struct, frozen=True):
    """The texts that the judge grades by; None is a text that the rubric does not
    see."""

    question: str | None = None
    answer: str | None = None
    contexts: tuple[str, ...] | None = None
    reference: str | None = None


async def graded_by(
    rubric: Rubric, judge: Judge, sample: Sample, response: Response, call: Call
) -> Grade:
    """The grade of one answer by `judge`; an empty answer gets the worst one without a
    call.

    A judge can grade if it has a method `grade(rubric, shown, *, call)`, which gives
    one of the rubric's levels. Raises JudgementFailed, not applicable for a judge
    without it.
    """
    ask = getattr(judge, "grade", None)
    if ask is None:
        raise JudgementFailed(
            NO_MODEL.format(judge.identity.label()), not_applicable=True
        )
    if "answer" in rubric.sees and not response.answer.strip():
        return Grade(0.0, EMPTY)
    sees = rubric.sees
    if "contexts" in sees and response.lacks_texts:
        raise JudgementFailed(NO_TEXTS, not_applicable=True)
    texts: dict[str, Any] = {
        "question": sample.question,
        "answer": response.answer,
        "contexts": tuple(context.text for context in response.contexts),
        "reference": sample.reference,
    }
    shown = RubricTexts(**{name: texts[name] for name in sees})
    grade: Grade = await ask(rubric, shown, call=call)
    return grade
