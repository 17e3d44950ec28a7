"""Rubrics: the user's own questions about an answer, which a language model grades by a
few levels."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Grade
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import NO_TEXTS, Response

TextName = Literal["question", "answer", "contexts", "reference"]

YES_NO = ("no", "yes")
"""The levels of a rubric that describes none."""

NO_MODEL = "a rubric needs a language model, but the {} uses none"
EMPTY = "the answer is empty"


class Rubric(Struct, frozen=True):
    """A question about an answer, which is graded by levels. Level i of k (from 0) has
    the value i ÷ (k − 1)."""

    name: str
    text: str
    levels: tuple[str, ...] = YES_NO
    """Descriptions of the levels, the worst first."""
    sees: tuple[TextName, ...] = ("question", "answer")
    """The texts that the judge reads."""

    def grade(self, level: int) -> Grade:
        """The grade of a level, from 0."""
        level_count = len(self.levels)
        return Grade(
            value=level / (level_count - 1),
            note=f"{level + 1} of {level_count}: {self.levels[level]}",
        )


class RubricTexts(Struct, frozen=True):
    """The texts that the judge grades an answer by. One that the rubric does not see,
    or that the sample lacks, is None."""

    question: str | None = None
    answer: str | None = None
    contexts: tuple[str, ...] | None = None
    reference: str | None = None


async def grade_answer(
    rubric: Rubric, judge: Judge, sample: Sample, response: Response, call: Call
) -> Grade:
    """The grade of an answer by `judge`; an empty answer gets the worst one without a
    call.

    A judge can grade if it has a method `grade(rubric, texts, *, call)`. Raises
    JudgementFailed; it is not applicable if the judge has no such method, or if the
    contexts are needed and have no texts.
    """
    ask = getattr(judge, "grade", None)
    if ask is None:
        raise JudgementFailed(
            NO_MODEL.format(judge.identity.label()), not_applicable=True
        )
    if "answer" in rubric.sees and not response.answer.strip():
        return Grade(value=0.0, note=EMPTY)
    if "contexts" in rubric.sees and response.lacks_texts:
        raise JudgementFailed(NO_TEXTS, not_applicable=True)
    texts: dict[str, Any] = {
        "question": sample.question,
        "answer": response.answer,
        "contexts": tuple(context.text for context in response.contexts),
        "reference": sample.reference,
    }
    visible_texts = RubricTexts(**{name: texts[name] for name in rubric.sees})
    grade: Grade = await ask(rubric, visible_texts, call=call)
    return grade
