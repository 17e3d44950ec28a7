"""Which of two answers to one question is better: the new one, or an earlier one?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import DirectJudge, Preference
from ragstone.judge.judgements import AnswerPreference, Better
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Response

QUALITY = (
    "overall: the answer that serves the person who asked better; it is right as far as the contexts tell, complete, "
    "and to the point"
)
"""What the judge is asked to compare, in words of the prompt's "any other quality"."""

SAME = "the answer is that of the baseline"
NO_ANSWER = "the baseline has no answer to it"

_NEW_FIRST = dict(
    zip(Preference, (Better.NEW, Better.EARLIER, Better.NEITHER), strict=True)
)
_EARLIER_FIRST = dict(
    zip(Preference, (Better.EARLIER, Better.NEW, Better.NEITHER), strict=True)
)


class WithEarlierAnswers:
    """`judge`, which can also compare an answer with an earlier one to the same
    question.

    `earlier` finds it by the sample, or returns None. Everything else is the judge's
    own.
    """

    def __init__(
        self, judge: Judge, earlier: Callable[[Sample], Response | None]
    ) -> None:
        self.judge = judge
        self._earlier = earlier

    def __getattr__(self, name: str) -> Any:
        return getattr(self.judge, name)

    async def preference(
        self,
        sample: Sample,
        response: Response,
        *,
        question: str | None = None,
        call: Call,
    ) -> AnswerPreference:
        """Which is better, asked in both orders. `question` is that of `sample` in
        other words, if they are clearer.

        Raises JudgementFailed (not applicable) if there is no earlier answer, if it is
        the same, or if the judge gives no preferences.
        """
        before = self._earlier(sample)
        if before is None or before.failure is not None:
            raise JudgementFailed(NO_ANSWER, not_applicable=True)
        if before.answer.split() == response.answer.split():
            raise JudgementFailed(SAME, not_applicable=True)
        if not isinstance(self.judge, DirectJudge):
            raise JudgementFailed(
                f"{self.judge.identity.label()} gives no preferences",
                not_applicable=True,
            )
        new = _answer_with_contexts(response)
        old = _answer_with_contexts(before)
        ask = self.judge.direct_preference
        question_text = question or sample.question
        first = await ask(
            QUALITY,
            question_text,
            new,
            old,
            call=call,
        )
        second = await ask(
            QUALITY,
            question_text,
            old,
            new,
            call=replace(call),
        )
        return AnswerPreference(_NEW_FIRST[first], _EARLIER_FIRST[second])


def _answer_with_contexts(response: Response) -> tuple[str, list[str]]:
    return response.answer, [context.text for context in response.contexts]
