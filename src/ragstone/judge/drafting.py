"""Writing questions for a golden set, and checking them: what `ragstone generate` asks of a judge that can write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from ragstone.judge.protocol import Call


class Kind(StrEnum):
    """What a question is like; the tag of its sample."""

    SINGLE = "single-passage"
    MULTI_PASSAGE = "multi-passage"
    MULTI_DOCUMENT = "multi-document"
    COMPARISON = "comparison"
    PARAPHRASE = "paraphrase"
    UNANSWERABLE = "unanswerable"


class Match(StrEnum):
    """How an answer compares with the reference."""

    SAME = "same"
    PARTLY = "partly"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Drafted:
    """A question as the model wrote it. `quotes` are its evidence: the position of the passage, and words of it.

    `difficulty` is ``easy``, ``medium`` or ``hard``. An unanswerable question has no answer, quotes or difficulty.
    """

    question: str
    answer: str = ""
    quotes: tuple[tuple[int, str], ...] = ()
    difficulty: str | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a reader says of a question alone, and of each answer compared with the reference."""

    standalone: bool
    sensible: bool
    trivial: bool
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Worse:
    """Answers that were made worse on purpose."""

    ungrounded: str
    poor: str


class Drafter(Protocol):
    """Each method is one call of a model; it raises JudgementFailed if the reply can't be had."""

    async def question(
        self, kind: Kind, passages: Sequence[str], asked: Sequence[str], *, call: Call
    ) -> Drafted | None:
        """A question on `passages`, unlike those in `asked`; None if there is nothing to ask."""

    async def reworded(self, question: str, answer: str, *, call: Call) -> str | None:
        """The question in users' words; None if there are no others."""

    async def attempt(self, question: str, passages: Sequence[str] | None, *, call: Call) -> str | None:
        """The answer by `passages` alone (None: by what the model knows); None if it can't be answered so."""

    async def inspect(self, question: str, reference: str, answers: Sequence[str], *, call: Call) -> Inspection: ...

    async def worsen(self, question: str, reference: str, passages: Sequence[str], *, call: Call) -> Worse: ...


@runtime_checkable
class WritesQuestions(Protocol):
    """A judge that can write; a judge offers it by having this property."""

    @property
    def drafter(self) -> Drafter: ...
