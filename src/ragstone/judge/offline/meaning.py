"""Context relevance and context usefulness, by words and by the meaning of sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ragstone.judge.judgements import ContextGrades, ContextUse
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.offline.lexicon import guess_language, load_data
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.topic import Topic
from ragstone.judge.protocol import Call
from ragstone.judge.sentences import split_sentences
from ragstone.system.response import Context

MAX_SENTENCES = 40
"""Limit of sentences compared one by one in a context or a reference; a context is also compared as a whole."""

_SAMPLE = 600


@dataclass(frozen=True, slots=True)
class _Weights:
    """p = 1 ÷ (1 + exp(-(bias + words · p by words + meaning · nearness)))."""

    bias: float
    words: float
    meaning: float

    def chance(self, words: float, nearness: float) -> float:
        return 1 / (1 + math.exp(-(self.bias + self.words * words + self.meaning * nearness)))


class MeaningJudge(OfflineJudge):
    """The offline judge with embeddings of a local model.

    The relevance of a context to a question is the mean of two cosines, scaled as in `Topic`: between question and
    context, and between question and nearest sentence. Its usefulness for a reference is the cosine of the nearest pair
    of their sentences. The lexical results are added with the weights in meaning.json.
    """

    def __init__(
        self,
        questions: Iterable[str] = (),
        references: Iterable[str] = (),
        *,
        topic: Topic,
        rarity: Rarity | None = None,
    ) -> None:
        super().__init__(questions, references, topic=topic, rarity=rarity)
        document = load_data("meaning.json")
        self.identity = replace(self.identity, parameters=(("meaning", str(document["version"])),))
        self._by_question = _Weights(**document["relevance"])
        self._by_reference = _Weights(**document["use"])
        self._near = topic

    async def context_relevance(self, question: str, contexts: Sequence[Context], *, call: Call) -> ContextGrades:
        found = await super().context_relevance(question, contexts, call=call)
        graded = []
        for one, context in zip(found.contexts, contexts, strict=True):
            near = await self._to_question(question, context.text, call)
            graded.append(replace(one, probability=self._by_question.chance(one.probability or 0.0, near)))
        return ContextGrades(tuple(graded))

    async def context_use(
        self, question: str, reference: str | None, answer: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextUse:
        found = await super().context_use(question, reference, answer, contexts, call=call)
        goals = _sentences(reference or answer)
        if not goals:
            return found
        useful = []
        for one, context in zip(found.contexts, contexts, strict=True):
            sentences = _sentences(context.text) or [context.text]
            near = max([max(await self._near.nearnesses(goal, sentences, call=call)) for goal in goals])
            chance = self._by_reference.chance(one.probability or 0.0, near)
            useful.append(replace(one, useful=chance >= 0.5, probability=chance))
        return replace(found, contexts=tuple(useful))

    async def nearest(self, text: str, passages: Sequence[str], *, call: Call) -> float:
        """How near `text` is to the nearest sentence of `passages`, in [0, 1] as in `Topic`."""
        sentences = [one for passage in passages for one in _sentences(passage) or [passage]]
        return max(await self._near.nearnesses(text, sentences, call=call))

    async def _to_question(self, question: str, text: str, call: Call) -> float:
        whole, *each = await self._near.nearnesses(question, [text, *_sentences(text)], call=call)
        return (whole + max(each, default=whole)) / 2


def _sentences(text: str) -> list[str]:
    plain = normalise(text)
    return split_sentences(plain, guess_language(plain[:_SAMPLE]).code)[:MAX_SENTENCES]
