"""Judging without statements: a grade for an answer or a context, or a choice between two.

These are the baselines of the RAGAS paper (Es et al. 2023, section 5), GPT Score and GPT Ranking. Only
`ragstone meta-eval --method score|ranking` uses them. A judge offers them by having these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from ragstone.judge.protocol import Call

Shown = tuple[str, Sequence[str]]
"""An answer and its contexts, as shown to the judge."""


class Preference(StrEnum):
    """Which of two is better."""

    FIRST = "first"
    SECOND = "second"
    NEITHER = "neither"


@runtime_checkable
class DirectJudge(Protocol):
    """A judge that can be asked for a grade or a preference directly.

    `quality` is ``faithfulness``, ``answer_relevancy`` or ``context_relevance`` (the paper's three), or another task of
    the meta-evaluation. Both methods raise JudgementFailed when the judgement fails.
    """

    async def direct_score(
        self, quality: str, question: str, answer: str, contexts: Sequence[str], *, call: Call
    ) -> float:
        """The paper's grade from 0 to 10, divided by 10: in [0, 1]."""
        ...

    async def direct_preference(
        self, quality: str, question: str, first: Shown, second: Shown, *, call: Call
    ) -> Preference:
        """Which of the two is better in `quality`."""
        ...
