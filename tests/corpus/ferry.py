"""The world of most cases: questions to a ferry company, its passages, and a system that answers, healthy or faulty.

The system compares vectors of words, and answers right where the passage that holds the answer is among the first three
of its contexts, whole and up to date. A fault of its retrieval is chosen by name.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("ferry.json")
SORRY = "I'm sorry, the documents don't say anything about that."
RETRIEVAL_FAULTS = (
    *("the index is half empty", "documents were dropped", "chunks are cut in half", "the corpus is stale"),
    *("embeddings are shuffled", "top k is 1", "the reranker is reversed", "the query is cut"),
)

_TOP_K = 4
_RERANKED = 8
_MIN_COSINE = 0.12
_STOP_WORDS = frozenset(
    re.findall(r"\w+", "a an and are as at be by can do does for from how i if in is it its may must of on or the to")
)


@dataclass(frozen=True)
class Passage:
    id: str
    text: str
    score: float | None = None

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.id, "text": self.text}
        return row if self.score is None else {**row, "score": self.score}


@dataclass(frozen=True)
class Question:
    """One sample of the golden set. Without a reference it can't be answered from the passages."""

    id: str
    text: str
    reference: str | None = None
    right_answer: str | None = None
    passage_id: str | None = None

    @property
    def answerable(self) -> bool:
        return self.passage_id is not None

    def row(self) -> dict[str, Any]:
        """The sample as the golden set has it."""
        row: dict[str, Any] = {"id": self.id, "question": self.text}
        return {**row, "reference": self.reference} if self.answerable else {**row, "answerable": False}


@dataclass(frozen=True)
class Reply:
    """What the system returns for one question: an answer with its contexts, or an error."""

    question: Question
    answer: str
    contexts: tuple[Passage, ...] = ()
    error: str | None = None
    latency_s: float | None = None

    @property
    def abstains(self) -> bool:
        return self.answer == SORRY

    def row(self) -> dict[str, Any]:
        """The reply as a file of recorded answers has it."""
        if self.error is not None:
            return {"id": self.question.id, "error": self.error}
        contexts = [passage.row() for passage in self.contexts]
        row: dict[str, Any] = {"id": self.question.id, "answer": self.answer, "contexts": contexts}
        return row if self.latency_s is None else {**row, "latency_s": self.latency_s}


@cache
def passages() -> tuple[Passage, ...]:
    rows = json.loads(DATA.read_text(encoding="utf-8"))["passages"]
    return tuple(Passage(f"p{number}", f"{row['title']}\n{row['text']}") for number, row in enumerate(rows))


@cache
def questions() -> tuple[Question, ...]:
    rows = json.loads(DATA.read_text(encoding="utf-8"))["questions"]
    found = []
    for number, row in enumerate(rows):
        passage = f"p{row['passage']}" if "passage" in row else None
        found.append(Question(f"f{number}", row["question"], row.get("reference"), row.get("answer"), passage))
    return tuple(found)


@cache
def replies(fault: str = "") -> tuple[Reply, ...]:
    """What the system returns for each question, with this fault of its retrieval; without a name it is healthy."""
    assert fault in ("", *RETRIEVAL_FAULTS), fault
    system = _System(fault)
    return tuple(system.reply(question) for question in questions())


def sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?])\s+", text.replace("\n", " ").strip())
    return [part for part in parts if part]


def similarity(text: str, other: str) -> float:
    """The cosine of the vectors of their words, in [0, 1]."""
    return _cosine(_vector(text), _vector(other))


class _System:
    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._passages = _indexed(fault)
        self._vectors = [_vector(passage.text) for passage in self._passages]
        if fault == "embeddings are shuffled":
            random.Random(30).shuffle(self._vectors)

    def reply(self, question: Question) -> Reply:
        contexts = self._retrieve(question.text)
        first = contexts[:3]
        right = [passage for passage in passages() if passage.id == question.passage_id]
        if question.right_answer is not None and right[0] in first:
            return Reply(question, question.right_answer, contexts)
        if not question.answerable or not first or similarity(question.text, first[0].text) < _MIN_COSINE:
            return Reply(question, SORRY, contexts)
        candidates = [text for passage in first for text in sentences(passage.text.partition("\n")[2])]
        best = max(candidates, key=lambda text: similarity(question.text, text), default="I don't know.")
        return Reply(question, best, contexts)

    def _retrieve(self, question: str) -> tuple[Passage, ...]:
        query = " ".join(question.split()[:4]) if self._fault == "the query is cut" else question
        vector = _vector(query)
        order = sorted(range(len(self._passages)), key=lambda at: _cosine(vector, self._vectors[at]), reverse=True)
        ranked = [self._passages[at] for at in order[:_RERANKED]]
        if self._fault == "the reranker is reversed":
            return tuple(reversed(ranked))
        return tuple(ranked[: 1 if self._fault == "top k is 1" else _TOP_K])


def _indexed(fault: str) -> list[Passage]:
    """The passages as this fault leaves them in the index."""
    everything = list(passages())
    draw = random.Random(30)
    if fault == "the index is half empty":
        return draw.sample(everything, len(everything) // 2)
    if fault == "documents were dropped":
        return draw.sample(everything, round(0.7 * len(everything)))
    if fault == "chunks are cut in half":
        return [replace(passage, text=passage.text[: len(passage.text) // 2]) for passage in everything]
    if fault == "the corpus is stale":
        return [replace(passage, text=_older(passage.text)) for passage in everything]
    return everything


def _older(text: str) -> str:
    """An earlier version of a passage: with other numbers, and without each third sentence."""
    kept_sentences = [sentence for at, sentence in enumerate(sentences(text)) if at % 3 != 1]
    return re.sub(r"\d+", lambda number: str(int(number.group()) * 2 + 3), " ".join(kept_sentences))


@cache
def _vector(text: str) -> Counter[str]:
    """The beginnings of its words, so that a plural is the same."""
    return Counter(word[:5] for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS)


def _cosine(vector: Counter[str], other: Counter[str]) -> float:
    product = sum(vector[word] * other[word] for word in vector.keys() & other.keys())
    size = math.sqrt(_square(vector) * _square(other))
    return product / size if size else 0.0


def _square(vector: Counter[str]) -> int:
    return sum(count * count for count in vector.values())
