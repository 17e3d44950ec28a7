"""Questions in other words or in another language, which only a language model can write."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ragstone.judge.protocol import Call


@runtime_checkable
class RewordsQuestions(Protocol):
    """A judge that can reword a question; a judge offers it by having this method."""

    async def reworded(self, question: str, *, language: str | None, call: Call) -> str:
        """`question` in `language`, or in other words of its own if None. Raises JudgementFailed."""
        ...
