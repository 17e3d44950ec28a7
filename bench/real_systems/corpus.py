"""A corpus and its golden set, from one text file: passages of sentences, with questions about some of them.

A line ``# id | title`` begins a passage. Each line after it is a sentence; behind it can stand a question that it
answers, the reference, and two other wordings of the sentence. A line ``? question`` has no answer in the corpus.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Passage:
    id: str
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.title}. {' '.join(self.sentences)}"

    def row(self) -> dict[str, Any]:
        return {"id": self.id, "text": self.text}


@dataclass(frozen=True)
class Question:
    """One sample; `sentence` of `passage_id` answers it. Without them it has no answer in the corpus."""

    id: str
    text: str
    reference: str | None = None
    sentence: str | None = None
    passage_id: str | None = None

    def row(self, *, with_ids: bool) -> dict[str, Any]:
        """The sample as the golden set has it."""
        row: dict[str, Any] = {"id": self.id, "question": self.text}
        if self.passage_id is None:
            return {**row, "answerable": False}
        row["reference"] = self.reference
        return {**row, "relevant_ids": [self.passage_id]} if with_ids else row


@dataclass(frozen=True)
class Corpus:
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]
    wordings: dict[str, tuple[str, str]]
    """Two other wordings of a sentence that answers a question."""


@cache
def read_corpus(name: str) -> Corpus:
    passages: list[Passage] = []
    questions: list[Question] = []
    wordings: dict[str, tuple[str, str]] = {}
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        number = f"{name[:1]}{len(questions):02}"
        if line.startswith("# "):
            passage_id, title = line.removeprefix("# ").split(" | ")
            passages.append(Passage(passage_id, title, ()))
        elif line.startswith("? "):
            questions.append(Question(number, line.removeprefix("? ")))
        elif line:
            sentence, *asked = line.split(" | ")
            passage = passages.pop()
            passages.append(Passage(passage.id, passage.title, (*passage.sentences, sentence)))
            if asked:
                question, reference, first, second = asked
                questions.append(Question(number, question, reference, sentence, passage.id))
                wordings[sentence] = (first, second)
    return Corpus(tuple(passages), tuple(questions), wordings)
