"""Protocols of what only some judges can do. A judge offers an ability by having its
methods."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from ragstone.golden.sample import Message
from ragstone.judge.judgements import AnswerSimilarity, EntityList, ReverseQuestions
from ragstone.judge.protocol import Call, Contexts

ENTITIES_PROMPT_VERSION = "1"
"""The version of llm/prompts/entities.toml, which is part of the version of the metric,
not of the judge's identity."""

NO_EMBEDDINGS = "the judge has no embeddings"

AnswerWithContexts = tuple[str, Sequence[str]]
"""An answer and the texts of its contexts."""


@runtime_checkable
class NamesEntities(Protocol):
    """Lists the entities of a text."""

    async def entities(self, text: str, *, call: Call) -> EntityList:
        """The distinct entities of `text`, each as it is written there. Raises
        JudgementFailed."""


@runtime_checkable
class Embedding(Protocol):
    """Compares an answer with references by embeddings."""

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        """The cosine of `answer` with each reference; without references, nothing is
        sent.

        Raises JudgementFailed; it is not applicable if the judge has no embeddings.
        """


@runtime_checkable
class RatesRelevancy(Protocol):
    """Rates the relevancy of an answer by the question, the contexts and the references
    instead of by reverse questions."""

    async def relevancy(
        self,
        question: str,
        answer: str,
        contexts: Contexts,
        references: Sequence[str],
        *,
        call: Call,
    ) -> ReverseQuestions:
        """The relevancy of `answer`, as a similarity without a question.

        `contexts` and `references` may be empty. Raises JudgementFailed.
        """


@runtime_checkable
class WritesOutQuestions(Protocol):
    """Writes out a question that is clear only within its conversation."""

    async def standalone_question(
        self, history: Sequence[Message], question: str, *, call: Call
    ) -> str:
        """`question`, after the turns of `history`, so that it can be understood alone.
        Raises JudgementFailed."""


class Preference(StrEnum):
    """Which of two answers is better, by their order."""

    FIRST = "first"
    SECOND = "second"
    NEITHER = "neither"


@runtime_checkable
class DirectJudge(Protocol):
    """Judges without statements: grades an answer, or chooses the better of two.

    These are the baselines of the RAGAS paper (Es et al. 2023, section 5), GPT Score
    and GPT Ranking, for `ragstone calibrate --method score|ranking`. The second is also
    used for pairwise preference. `quality` is ``faithfulness``, ``answer_relevancy``
    or ``context_relevance`` (the paper's three), or a description of another quality.
    Both methods raise JudgementFailed.
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
        """The grade of `answer` in `quality`, in [0, 1]: the paper's, from 0 to 10,
        divided by 10."""

    async def direct_preference(
        self,
        quality: str,
        question: str,
        first: AnswerWithContexts,
        second: AnswerWithContexts,
        *,
        call: Call,
    ) -> Preference:
        """Which of the two answers is better in `quality`."""
