"""What some judges can do besides judging. A judge offers an ability by having its
methods."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from ragstone.golden.sample import Message
from ragstone.judge.judgements import AnswerSimilarity, EntityList, ReverseQuestions
from ragstone.judge.protocol import Call, Contexts

ENTITIES_PROMPT_VERSION = "1"
"""Of llm/prompts/entities.toml: part of the version of the metric, not of the judge's
identity."""

NO_EMBEDDINGS = "the judge has no embeddings"

Shown = tuple[str, Sequence[str]]
"""An answer and its contexts, as shown to the judge."""


@runtime_checkable
class NamesEntities(Protocol):
    """Lists entities."""

    async def entities(self, text: str, *, call: Call) -> EntityList:
        """The distinct entities of `text`, each as it is written there. Raises
        JudgementFailed."""


@runtime_checkable
class Embedding(Protocol):
    """Compares an answer with references by embeddings."""

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        """The cosine of `answer` with each reference, at no cost if there is none.
        Raises JudgementFailed, not applicable without embeddings.
        """


@runtime_checkable
class RatesRelevancy(Protocol):
    """Rates the relevancy of an answer by all that is given, instead of by reverse
    questions."""

    async def relevancy(
        self,
        question: str,
        answer: str,
        contexts: Contexts,
        references: Sequence[str],
        *,
        call: Call,
    ) -> ReverseQuestions:
        """A similarity for `answer`, without questions; `contexts` and `references` may
        be empty. Raises JudgementFailed.
        """


@runtime_checkable
class WritesOutQuestions(Protocol):
    """Writes out a question that only its conversation makes clear."""

    async def standalone_question(
        self, history: Sequence[Message], question: str, *, call: Call
    ) -> str:
        """`question`, after the turns of `history`, so that it can be understood alone.
        Raises JudgementFailed."""


class Preference(StrEnum):
    """Which of two is better."""

    FIRST = "first"
    SECOND = "second"
    NEITHER = "neither"


@runtime_checkable
class DirectJudge(Protocol):
    """Judges without statements: a grade for an answer or a context, or a choice
    between two.

    These are the baselines of the RAGAS paper (Es et al. 2023, section 5), GPT Score
    and GPT Ranking, for `ragstone calibrate --method score|ranking`; pairwise
    preference is a choice, too. `quality` is ``faithfulness``, ``answer_relevancy`` or
    ``context_relevance`` (the paper's three), or another in words. Both methods raise
    JudgementFailed when the judgement fails.
    """

    async def direct_score(
        self,
        quality: str,
        question: str,
        answer: str,
        contexts: Sequence[str],
        *,
        call: Call,
    ) -> float:
        """The paper's grade from 0 to 10, divided by 10: in [0, 1]."""

    async def direct_preference(
        self, quality: str, question: str, first: Shown, second: Shown, *, call: Call
    ) -> Preference:
        """Which of the two is better in `quality`."""
