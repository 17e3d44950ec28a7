"""Writing questions for a golden set, and checking them: what `ragstone generate` asks of a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragstone.judge.llm import prompts
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import Core, value_of
from ragstone.judge.llm.prompts import DIFFICULTIES, MATCHES, YES_OR_NO
from ragstone.judge.llm.replies import Field
from ragstone.judge.llm.reply_schemas import as_object, chosen, one_of
from ragstone.judge.protocol import Call
from ragstone.judge.untrusted_text import Block, cleaned, listed

_MAX_TEXT = 4_000
_MAX_QUOTES = 20
_TOKENS = 700
"""The usual upper limit of a reply that writes texts."""


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


class Drafter:
    """Each method is one call of a model, cached as judgements are; it raises JudgementFailed if there is no reply."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def question(
        self, kind: Kind, passages: Sequence[str], asked: Sequence[str], *, call: Call
    ) -> Drafted | None:
        """A question on `passages`, unlike those in `asked`; None if there is nothing to ask."""
        blocks = _passages(passages)
        if asked:
            blocks.append(Block("asked", listed([(str(at), text) for at, text in enumerate(asked, start=1)])))
        if kind is Kind.UNANSWERABLE:
            found = await self._core.one(prompts.DRAFT_UNANSWERABLE, _QUESTION, blocks, call)
            return Drafted(str(found["question"])) if found else None
        field = Field(("draft",), _possible(_answered(len(passages))), _TOKENS)
        found = await self._core.one(prompts.DRAFT_QUESTION, field, [Block("kind", kind), *blocks], call)
        if not found:
            return None
        quotes = tuple((int(number), str(quote)) for number, quote in found["quotes"])
        return Drafted(str(found["question"]), str(found["answer"]), quotes, str(found["difficulty"]))

    async def reworded(self, question: str, answer: str, *, call: Call) -> str | None:
        """The question in users' words; None if there are no others."""
        blocks = [Block("question", question), Block("answer", answer)]
        found = await self._core.one(prompts.DRAFT_PARAPHRASE, _QUESTION, blocks, call)
        return str(found["question"]) if found else None

    async def attempt(self, question: str, passages: Sequence[str] | None, *, call: Call) -> str | None:
        """The answer by `passages` alone (None: by what the model knows); None if it can't be answered so."""
        blocks = [Block("question", question), *_passages(passages or ())]
        prompt = prompts.DRAFT_RECALL if passages is None else prompts.DRAFT_ATTEMPT
        found = await self._core.one(prompt, Field(("attempt",), _attempt, _TOKENS), blocks, call)
        return str(found["answer"]) if found["answerable"] == "yes" else None

    async def inspect(self, question: str, reference: str, answers: Sequence[str], *, call: Call) -> Inspection:
        names = [f"a{at}" for at in range(1, len(answers) + 1)]
        fields = [Field(("checks", "question"), _checks, 96)]
        fields += [Field(("answers", name), chosen("match", MATCHES), 24) for name in names]
        blocks = [Block("question", question)]
        if answers:
            blocks.append(Block("reference", reference))
        blocks += [Block(f"answer {name}", text) for name, text in zip(names, answers, strict=True)]
        values = await self._core.filled(
            Form(self._core.prompts[prompts.DRAFT_INSPECTION], tuple(fields)), blocks, call
        )
        checks = value_of(values, "checks", "question")
        return Inspection(
            standalone=checks["standalone"] == "yes",
            sensible=checks["sensible"] == "yes",
            trivial=checks["trivial"] == "yes",
            matches=tuple(Match(value_of(values, "answers", name)["match"]) for name in names),
        )

    async def worsen(self, question: str, reference: str, passages: Sequence[str], *, call: Call) -> Worse:
        blocks = [Block("question", question), Block("reference", reference), *_passages(passages)]
        found = await self._core.one(prompts.DRAFT_WORSE, Field(("worse",), _worse, _TOKENS), blocks, call)
        return Worse(str(found["ungrounded"]), str(found["poor"]))


def _passages(texts: Sequence[str]) -> list[Block]:
    return [Block(f"passage p{at}", text) for at, text in enumerate(texts, start=1)]


def _possible(check: Callable[[dict[str, object]], object]) -> Callable[[object], object]:
    """`check` for a draft; an empty object for none. Read from the cache, it is checked again in its final form."""

    def checked(value: object) -> object:
        if value == {}:
            return value
        found = as_object(value)
        if found.get("possible", "yes") not in YES_OR_NO:
            raise ValueError("neither yes nor no")
        return {} if found.get("possible") == "no" else check(found)

    return checked


_QUESTION = Field(("draft",), _possible(lambda value: {"question": _text(value["question"])}), _TOKENS)


def _answered(count: int) -> Callable[[dict[str, object]], object]:
    names = [f"p{at}" for at in range(1, count + 1)]

    def check(value: dict[str, object]) -> object:
        quotes = value["quotes"]
        if not isinstance(quotes, list) or not 0 < len(quotes) <= _MAX_QUOTES:
            raise ValueError("no list of quotes")
        pairs = []
        for quote in quotes:
            if isinstance(quote, list) and len(quote) == 2 and isinstance(quote[0], int) and 0 <= quote[0] < count:
                pairs.append([quote[0], _text(quote[1])])  # from the cache
            else:
                found = as_object(quote)
                pairs.append([names.index(str(found["passage"])), _text(found["quote"])])
        return {
            "question": _text(value["question"]),
            "answer": _text(value["answer"]),
            "quotes": pairs,
            "difficulty": one_of(value["difficulty"], DIFFICULTIES),
        }

    return check


def _attempt(value: object) -> object:
    found = as_object(value)
    if one_of(found["answerable"], YES_OR_NO) == "no":
        return {"answerable": "no", "answer": ""}
    return {"answerable": "yes", "answer": _text(found["answer"])}


def _checks(value: object) -> object:
    found = as_object(value)
    return {name: one_of(found[name], YES_OR_NO) for name in ("standalone", "sensible", "trivial")}


def _worse(value: object) -> object:
    found = as_object(value)
    return {name: _text(found[name]) for name in ("ungrounded", "poor")}


def _text(value: object) -> str:
    """A text of the model's without hidden characters: it is written to a file that people and programs read."""
    text = " ".join(cleaned(value).split()) if isinstance(value, str) else ""
    if not text or len(text) > _MAX_TEXT:
        raise ValueError("not a short text")
    return text
