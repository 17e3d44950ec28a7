"""What `ragstone generate` asks of a language model: questions, second readings of them, and worse answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragstone.errors import ConfigError
from ragstone.judge.llm import prompts
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import Core, value_of
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.prompts import DIFFICULTIES, MATCHES, YES_OR_NO
from ragstone.judge.llm.replies import Field
from ragstone.judge.llm.reply_schemas import as_object, chosen, one_of
from ragstone.judge.protocol import Call, Judge
from ragstone.judge.untrusted_text import Block, cleaned, listed

_MAX_TEXT = 4_000
_MAX_QUOTES = 20
_TOKENS = 700
"""The usual upper limit of a reply that writes texts."""


class Kind(StrEnum):
    """What a question is like; the tag of its sample."""

    ONE_PASSAGE = "one-passage"
    TWO_PASSAGES = "two-passages"
    UNANSWERABLE = "unanswerable"


@dataclass(frozen=True, slots=True)
class Drafted:
    """A question as the model wrote it. An unanswerable one has nothing else."""

    question: str
    answer: str = ""
    quotes: tuple[tuple[int, str], ...] = ()
    """The evidence: the position of the passage, and words of it."""
    difficulty: str | None = None
    """``easy``, ``medium`` or ``hard``."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a reader says of a question alone, and of each answer compared with the reference."""

    standalone: bool
    sensible: bool
    trivial: bool
    matches: tuple[bool, ...]
    """Whether each answer says the same as the reference."""


class Drafter:
    """Each method is one call of a model, cached as judgements are; it raises JudgementFailed if there is no reply."""

    def __init__(self, judge: Judge) -> None:
        if not isinstance(judge, LlmJudge):
            raise ConfigError(
                f"the judge '{judge.identity.label()}' can't write questions: that takes a language model.",
                where="judge.name",
                hint="For example: --judge openai:gpt-5.4-mini",
            )
        self._core: Core = judge.core

    async def question(
        self, kind: Kind, passages: Sequence[str], existing: Sequence[str], *, call: Call
    ) -> Drafted | None:
        """A question on `passages`, unlike the `existing` ones; None if there is nothing to ask."""
        blocks = _passages(passages)
        if existing:
            numbered = [(str(number), text) for number, text in enumerate(existing, start=1)]
            blocks.append(Block("asked", listed(numbered)))
        if kind is Kind.UNANSWERABLE:
            field = Field(("draft",), _possible(_question), _TOKENS)
            reply = await self._core.one(prompts.DRAFT_UNANSWERABLE, field, blocks, call)
            return Drafted(str(reply["question"])) if reply else None
        field = Field(("draft",), _possible(_answered(len(passages))), _TOKENS)
        reply = await self._core.one(prompts.DRAFT_QUESTION, field, [Block("kind", kind), *blocks], call)
        if not reply:
            return None
        quotes = tuple((int(number), str(quote)) for number, quote in reply["quotes"])
        return Drafted(str(reply["question"]), str(reply["answer"]), quotes, str(reply["difficulty"]))

    async def attempt(self, question: str, passages: Sequence[str], *, call: Call) -> str | None:
        """The answer by `passages` alone; None if they don't answer it."""
        blocks = [Block("question", question), *_passages(passages)]
        reply = await self._core.one(prompts.DRAFT_ATTEMPT, Field(("attempt",), _attempt, _TOKENS), blocks, call)
        return str(reply["answer"]) if reply["answerable"] == "yes" else None

    async def inspect(self, question: str, reference: str, answers: Sequence[str], *, call: Call) -> Inspection:
        """Whether the question can stand alone, and which of `answers` say what the reference says."""
        names = [f"a{number}" for number in range(1, len(answers) + 1)]
        fields = [Field(("checks", "question"), _checks, 96)]
        fields += [Field(("answers", name), chosen("match", MATCHES), 24) for name in names]
        blocks = [Block("question", question)]
        if answers:
            blocks.append(Block("reference", reference))
        blocks += [Block(f"answer {name}", text) for name, text in zip(names, answers, strict=True)]
        form = Form(self._core.prompts[prompts.DRAFT_INSPECTION], tuple(fields))
        values = await self._core.filled(form, blocks, call)
        checks = value_of(values, "checks", "question")
        return Inspection(
            standalone=checks["standalone"] == "yes",
            sensible=checks["sensible"] == "yes",
            trivial=checks["trivial"] == "yes",
            matches=tuple(value_of(values, "answers", name)["match"] == "same" for name in names),
        )

    async def worsen(self, question: str, reference: str, passages: Sequence[str], *, call: Call) -> tuple[str, str]:
        """Two answers made worse on purpose: one without the context, and an incomplete one."""
        blocks = [Block("question", question), Block("reference", reference), *_passages(passages)]
        reply = await self._core.one(prompts.DRAFT_WORSE, Field(("worse",), _worse, _TOKENS), blocks, call)
        return str(reply["ungrounded"]), str(reply["poor"])


def _passages(texts: Sequence[str]) -> list[Block]:
    return [Block(f"passage p{number}", text) for number, text in enumerate(texts, start=1)]


def _possible(check: Callable[[dict[str, object]], object]) -> Callable[[object], object]:
    """`check` for a draft; an empty object for none. Read from the cache, it is checked again in its final form."""

    def checked(value: object) -> object:
        if value == {}:
            return value
        reply = as_object(value)
        if reply.get("possible", "yes") not in YES_OR_NO:
            raise ValueError("neither yes nor no")
        return {} if reply.get("possible") == "no" else check(reply)

    return checked


def _question(value: dict[str, object]) -> object:
    return {"question": _text(value["question"])}


def _answered(count: int) -> Callable[[dict[str, object]], object]:
    names = [f"p{number}" for number in range(1, count + 1)]

    def check(value: dict[str, object]) -> object:
        quotes = value["quotes"]
        if not isinstance(quotes, list) or not 0 < len(quotes) <= _MAX_QUOTES:
            raise ValueError("no list of quotes")
        pairs = []
        for quote in quotes:
            if isinstance(quote, list) and len(quote) == 2 and isinstance(quote[0], int) and 0 <= quote[0] < count:
                pairs.append([quote[0], _text(quote[1])])  # from the cache
            else:
                fields = as_object(quote)
                pairs.append([names.index(str(fields["passage"])), _text(fields["quote"])])
        return {
            "question": _text(value["question"]),
            "answer": _text(value["answer"]),
            "quotes": pairs,
            "difficulty": one_of(value["difficulty"], DIFFICULTIES),
        }

    return check


def _attempt(value: object) -> object:
    reply = as_object(value)
    if one_of(reply["answerable"], YES_OR_NO) == "no":
        return {"answerable": "no", "answer": ""}
    return {"answerable": "yes", "answer": _text(reply["answer"])}


def _checks(value: object) -> object:
    reply = as_object(value)
    return {name: one_of(reply[name], YES_OR_NO) for name in ("standalone", "sensible", "trivial")}


def _worse(value: object) -> object:
    reply = as_object(value)
    return {name: _text(reply[name]) for name in ("ungrounded", "poor")}


def _text(value: object) -> str:
    """A text of the model's without hidden characters: it is written to a file that people and programs read."""
    text = " ".join(cleaned(value).split()) if isinstance(value, str) else ""
    if not text or len(text) > _MAX_TEXT:
        raise ValueError("not a short text")
    return text
