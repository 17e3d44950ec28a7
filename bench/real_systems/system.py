"""Two systems: `gardens` ranks by words and quotes one sentence; `coffee` ranks by parts of words, and may quote two.

Each step can be replaced, which is how a change is made: what is indexed, what is retrieved, what the generator sees of
it, what is said, and what is returned.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from real_systems.corpus import Passage, read_corpus

SORRY = "I'm sorry, the documents don't say anything about that."
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be by can do does for from get has have how i if in is it "
        "its many may much must of on one or should that the them there "
        "they this to was what when where which who whom whose why will with",
    )
)
_MIN_SCORE = 0.4
"""Of the question's weight, the part that a sentence must have to be an answer."""
_SECOND = 0.8
"""A second sentence is quoted if it scores so much of the first."""


@dataclass(frozen=True)
class Reply:
    """What the system says to a question, and the passages that it returns with it."""

    question: str
    answer: str
    contexts: tuple[Passage, ...]
    sentences: tuple[str, ...] = ()
    """The sentences of the corpus behind the answer; empty if it says that it doesn't know."""

    def returned(self) -> dict[str, Any]:
        return {"answer": self.answer, "contexts": [passage.row() for passage in self.contexts]}


Passages = tuple[Passage, ...]


@dataclass(frozen=True)
class Steps:
    """The steps of a system. Each gets what the step before it made."""

    top_k: int = 4
    index: Callable[[Passages], Passages] = lambda passages: passages
    query: Callable[[str], str] = lambda question: question
    retrieved: Callable[[Passages, str], Passages] = lambda passages, question: passages
    read: Callable[[Passages], Passages] = lambda passages: passages
    reply: Callable[[Reply], Reply] = lambda reply: reply


class RagSystem:
    """A system over the corpus `name`. Deterministic."""

    def __init__(self, name: str, steps: Steps | None = None) -> None:
        self.corpus = read_corpus(name)
        self.steps = steps or Steps()
        self.passages = self.steps.index(self.corpus.passages)
        by_letters = name == "coffee"
        self._terms = _letters if by_letters else _words
        self._quotes = 2 if by_letters else 1
        self._word_weight = _weights([_words(passage.text) for passage in self.corpus.passages])
        self._documents = [Counter(self._terms(passage.text)) for passage in self.passages]
        self._weight = _weights([list(document) for document in self._documents])
        lengths = [document.total() for document in self._documents]
        self._mean_length = sum(lengths) / len(lengths)

    def answer(self, question: str) -> dict[str, Any]:
        return self.reply(question).returned()

    def reply(self, question: str) -> Reply:
        query = self.steps.query(question)
        passages = self.steps.retrieved(self.retrieve(query, self.steps.top_k), question)
        sentences = self._quote(question, self.steps.read(passages))
        said = " ".join(sentences) if sentences else SORRY
        return self.steps.reply(Reply(question, said, passages, sentences))

    def retrieve(self, query: str, top_k: int) -> Passages:
        terms = self._terms(query)
        scores = [self._score(terms, document) for document in self._documents]
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        return tuple(self.passages[place] for place in order[:top_k])

    def _score(self, terms: Sequence[str], document: Counter[str]) -> float:
        norm = 1.2 * (0.25 + 0.75 * document.total() / self._mean_length)
        return sum(self._weight.get(term, 0.0) * document[term] / (document[term] + norm) for term in terms)

    def _quote(self, question: str, passages: Passages) -> tuple[str, ...]:
        asked = set(_words(question))
        weights = {word: self._word_weight.get(word, 3.0) for word in asked}
        whole = sum(weights.values())
        scored = [
            (self._overlap(sentence, passage, weights), sentence)
            for passage in passages
            for sentence in passage.sentences
        ]
        scored.sort(key=lambda pair: -pair[0])
        if not scored or scored[0][0] < _MIN_SCORE * whole:
            return ()
        best = scored[0][0]
        return tuple(sentence for score, sentence in scored[: self._quotes] if score >= _SECOND * best)

    def _overlap(self, sentence: str, passage: Passage, weights: dict[str, float]) -> float:
        words = _words(sentence)
        titled = set(_words(passage.title)) - set(words)
        shared = sum(weights.get(word, 0.0) for word in set(words))
        return shared + 0.3 * sum(weights.get(word, 0.0) for word in titled) - 0.01 * len(words)


def _words(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+(?:[.:-][a-z0-9]+)*", text.lower().replace("'", ""))
    return [_stem(word) for word in words if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{3})(ing|ed|es|e|s)$", "", word)


def _letters(text: str) -> list[str]:
    """Words, and parts of four letters of them."""
    words = _words(text)
    return words + [word[start : start + 4] for word in words for start in range(max(0, len(word) - 3))]


def _weights(documents: Sequence[Sequence[str]]) -> dict[str, float]:
    times = Counter(term for document in documents for term in set(document))
    return {term: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for term, n in times.items()}
