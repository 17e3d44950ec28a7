"""Compares an answer with an earlier one to the same question: which is better?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import AnswerWithContexts, DirectJudge, Preference
from ragstone.judge.judgements import AnswerPreference, Better
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Response

QUALITY = (
    "overall: the answer that serves the person who asked better; it is right as far as the contexts tell, complete, "
    "and to the point"
)
"""The quality by which the judge compares answers."""

SAME = "the answer is that of the baseline"
NO_ANSWER = "the baseline has no answer to it"

_BETTER_IF_NEW_IS_FIRST = {
    Preference.FIRST: Better.NEW,
    Preference.SECOND: Better.EARLIER,
    Preference.NEITHER: Better.NEITHER,
}
_BETTER_IF_EARLIER_IS_FIRST = {
    Preference.FIRST: Better.EARLIER,
    Preference.SECOND: Better.NEW,
    Preference.NEITHER: Better.NEITHER,
}


class WithEarlierAnswers:
    """A judge that can also compare an answer with an earlier one to the same question;
    everything else is left to `judge`.

    `find_earlier` returns the earlier response to a sample; None if there is none.
    """

    def __init__(
        self, judge: Judge, find_earlier: Callable[[Sample], Response | None]
    ) -> None:
        self.judge = judge
        self._find_earlier = find_earlier

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
        """Which answer is better, asked in both orders. `question` replaces that of
        `sample`, if it was written out from a conversation.

        Raises JudgementFailed. It is not applicable if there is no earlier answer, if
        both are the same, or if the judge can't compare answers.
        """
        earlier_response = self._find_earlier(sample)
        if earlier_response is None or earlier_response.failure is not None:
            raise JudgementFailed(NO_ANSWER, not_applicable=True)
        if earlier_response.answer.split() == response.answer.split():
            raise JudgementFailed(SAME, not_applicable=True)
        if not isinstance(self.judge, DirectJudge):
            raise JudgementFailed(
                f"{self.judge.identity.label()} gives no preferences",
                not_applicable=True,
            )
        new = _answer_with_contexts(response)
        earlier = _answer_with_contexts(earlier_response)
        compare = partial(
            self.judge.direct_preference, QUALITY, question or sample.question
        )
        with_new_first = await compare(new, earlier, call=call)
        with_earlier_first = await compare(earlier, new, call=call)
        return AnswerPreference(
            new_first=_BETTER_IF_NEW_IS_FIRST[with_new_first],
            earlier_first=_BETTER_IF_EARLIER_IS_FIRST[with_earlier_first],
        )


def _answer_with_contexts(response: Response) -> AnswerWithContexts:
    return response.answer, [context.text for context in response.contexts]
