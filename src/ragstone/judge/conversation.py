"""Questions that only their conversation makes clear, written out for the judge.

All judgements of such a sample are made with the question written out, so that their prompts stay the same, and so do
judgements of samples without a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragstone.golden.sample import Sample, Turn
from ragstone.judge.protocol import Call


@runtime_checkable
class WritesOutQuestions(Protocol):
    """A judge that can write a question out; a judge offers it by having this method."""

    async def standalone_question(self, history: Sequence[Turn], question: str, *, call: Call) -> str:
        """`question`, after the turns of `history`, so that it can be understood alone. Raises JudgementFailed."""
        ...


async def asked_in_full(judge: object, sample: Sample, call: Call) -> str:
    """The question of `sample` as it can be understood alone: written out by a judge that can do so.

    Otherwise the earlier question of the user is put before it: coarse, but the topic is there. Raises JudgementFailed.
    """
    if not sample.history:
        return sample.question
    if isinstance(judge, WritesOutQuestions):
        return await judge.standalone_question(sample.history, sample.question, call=call)
    earlier = [turn.text for turn in sample.history if turn.role == "user"]
    return " ".join([*earlier[-1:], sample.question])
