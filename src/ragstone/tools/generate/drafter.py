"""What `ragstone generate` asks of a language model: questions, second readings of
them, and worse answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic import Field as Limits

from ragstone.errors import ConfigError
from ragstone.judge.llm import prompts
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import value_of
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.replies import Field
from ragstone.judge.llm.reply_schemas import as_object
from ragstone.judge.protocol import Call, Judge
from ragstone.judge.untrusted_text import Block, cleaned, listed

_TOKENS = 700
"""The usual upper limit of a reply that writes texts."""


def _tidied(value: object) -> object:
    """A text of the model's without hidden characters: it is written to a file that
    people and programs read."""
    return " ".join(cleaned(value).split()) if isinstance(value, str) else value


_Text = Annotated[str, Limits(min_length=1, max_length=4_000), BeforeValidator(_tidied)]


class Kind(StrEnum):
    """What a question is like; the tag of its sample."""

    ONE_PASSAGE = "one-passage"
    TWO_PASSAGES = "two-passages"
    UNANSWERABLE = "unanswerable"


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class Quote(_Reply):
    """Words of a passage, as evidence."""

    passage: Literal["p1", "p2"]
    quote: _Text


class Drafted(_Reply):
    """A question as the model wrote it. An unanswerable one has nothing else."""

    possible: Literal["yes"] = "yes"
    question: _Text
    answer: str = ""
    quotes: tuple[Quote, ...] = ()
    difficulty: str = ""


class _Answered(Drafted):
    answer: _Text
    quotes: Annotated[tuple[Quote, ...], Limits(min_length=1, max_length=20)]
    difficulty: Literal["easy", "medium", "hard"]


class _Attempt(_Reply):
    answerable: Literal["yes"]
    answer: _Text


class _Worse(_Reply):
    ungrounded: _Text
    poor: _Text


class _Match(_Reply):
    match: Literal["same", "partly", "different"]


class Inspection(_Reply):
    """What a reader says of a question alone, and of each answer: whether it says the
    same as the reference."""

    standalone: bool
    sensible: bool
    trivial: bool
    matches: tuple[bool, ...] = ()


def _check(model: type[_Reply], flag: str = "") -> Callable[[object], object]:
    """The check of a value by `model`; none of it is checked if its `flag` is "no"."""

    def check(value: object) -> object:
        if as_object(value).get(flag) == "no":
            return {flag: "no"}
        return model.model_validate(value).model_dump(mode="json")

    return check


def no_writer(judge: str) -> ConfigError:
    """The error for a judge that can't write."""
    return ConfigError(
        f"the judge '{judge}' can't write questions: that takes a language model.",
        where="judge.name",
        hint="For example: --judge openai:gpt-5.4-mini, with OPENAI_API_KEY set.",
    )


class Drafter:
    """Each method is one call of a model, cached as judgements are; it raises
    JudgementFailed if there is no reply."""

    def __init__(self, judge: Judge) -> None:
        if not isinstance(judge, LlmJudge):
            raise no_writer(judge.identity.label())
        self._core = judge.core

    async def question(
        self,
        kind: Kind,
        passages: Sequence[str],
        existing: Sequence[str],
        *,
        call: Call,
    ) -> Drafted | None:
        """A question on `passages`, unlike the `existing` ones; None if there is
        nothing to ask."""
        prompt = prompts.DRAFT_QUESTION
        model: type[Drafted] = _Answered
        blocks = [Block("kind", kind), *_passages(passages)]
        if kind is Kind.UNANSWERABLE:
            prompt = prompts.DRAFT_UNANSWERABLE
            model = Drafted
            blocks = _passages(passages)
        if existing:
            numbered = [
                (str(number), text) for number, text in enumerate(existing, start=1)
            ]
            blocks.append(Block("asked", listed(numbered)))
        reply = await self._core.one(
            prompt, Field(("draft",), _check(model, "possible"), _TOKENS), blocks, call
        )
        return None if reply["possible"] == "no" else Drafted.model_validate(reply)

    async def attempt(
        self, question: str, passages: Sequence[str], *, call: Call
    ) -> str | None:
        """The answer by `passages` alone; None if they don't answer it."""
        check = _check(_Attempt, "answerable")
        field = Field(("attempt",), check, _TOKENS)
        blocks = [Block("question", question), *_passages(passages)]
        answer: str | None = (
            await self._core.one(prompts.DRAFT_ATTEMPT, field, blocks, call)
        ).get("answer")
        return answer

    async def inspect(
        self, question: str, reference: str, answers: Sequence[str], *, call: Call
    ) -> Inspection:
        """Whether the question can stand alone, and which of `answers` say what the
        reference says."""
        blocks = [Block("question", question)]
        question_field = Field(("checks", "question"), _check(Inspection), 96)
        fields = [question_field]
        if answers:
            blocks.append(Block("reference", reference))
        for number, answer in enumerate(answers, start=1):
            name = f"a{number}"
            blocks.append(Block(f"answer {name}", answer))
            answer_field = Field(("answers", name), _check(_Match), 24)
            fields.append(answer_field)
        prompt = self._core.prompts[prompts.DRAFT_INSPECTION]
        form = Form(prompt, tuple(fields))
        values = await self._core.filled(form, blocks, call)
        matches = tuple(
            value_of(values, *field.path)["match"] == "same" for field in fields[1:]
        )
        return Inspection.model_validate(
            value_of(values, "checks", "question") | {"matches": matches}
        )

    async def worsen(
        self, question: str, reference: str, passages: Sequence[str], *, call: Call
    ) -> tuple[str, str]:
        """Two answers made worse on purpose: one without the context, and an incomplete
        one."""
        blocks = [
            Block("question", question),
            Block("reference", reference),
            *_passages(passages),
        ]
        reply = await self._core.one(
            prompts.DRAFT_WORSE,
            Field(("worse",), _check(_Worse), _TOKENS),
            blocks,
            call,
        )
        return reply["ungrounded"], reply["poor"]


def _passages(texts: Sequence[str]) -> list[Block]:
    return [
        Block(f"passage p{number}", text) for number, text in enumerate(texts, start=1)
    ]
