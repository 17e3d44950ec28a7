"""Asks a language model for questions, for checks of them, and for worse answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic import Field as Limits

from ragstone.errors import ConfigError
from ragstone.judge.llm import prompts
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.form_filler import value_of
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.llm.replies import Field
from ragstone.judge.llm.reply_schemas import as_object
from ragstone.judge.protocol import Call, Judge
from ragstone.judge.untrusted_text import Block, remove_hidden, render_list

# The usual upper limits of parts of a reply, in tokens.
_TEXT_TOKENS = 700
_CHECKS_TOKENS = 96
_MATCH_TOKENS = 24


def _tidy(value: object) -> object:
    """A text on one line, without hidden characters, since it is written to a file that
    people and programs read. Other values stay as they are."""
    return " ".join(remove_hidden(value).split()) if isinstance(value, str) else value


_Text = Annotated[str, Limits(min_length=1, max_length=4_000), BeforeValidator(_tidy)]


class Kind(StrEnum):
    """A kind of question. It is a tag of its sample."""

    ONE_PASSAGE = "one-passage"
    TWO_PASSAGES = "two-passages"
    UNANSWERABLE = "unanswerable"


class _Reply(BaseModel):
    """A part of a model's reply. The fields are those that its prompt asks for."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Quote(_Reply):
    """Words of a passage that are evidence for an answer."""

    passage: Literal["p1", "p2"]
    quote: _Text


class DraftedQuestion(_Reply):
    """A question as the model wrote it. An unanswerable one has neither answer, quotes
    nor difficulty."""

    possible: Literal["yes"] = "yes"
    """A reply with "no" has no question."""
    question: _Text
    answer: str = ""
    quotes: tuple[Quote, ...] = ()
    difficulty: str = ""


class _AnswerableQuestion(DraftedQuestion):
    answer: _Text
    quotes: Annotated[tuple[Quote, ...], Limits(min_length=1, max_length=20)]
    difficulty: Literal["easy", "medium", "hard"]


class _Attempt(_Reply):
    answerable: Literal["yes"]
    answer: _Text


class WorseAnswers(_Reply):
    """Two answers that are worse than the reference on purpose."""

    ungrounded: _Text
    """Written without the passages."""
    poor: _Text
    """Incomplete."""


class _Match(_Reply):
    match: Literal["same", "partly", "different"]


class Inspection(_Reply):
    """What a second reading says of a question and of answers to it."""

    standalone: bool
    """Whether it can be understood without the document."""
    sensible: bool
    """Whether a user would ask it."""
    trivial: bool
    matches: tuple[bool, ...] = ()
    """For each answer, whether it says the same as the reference."""


def _check(model: type[_Reply], flag: str = "") -> Callable[[object], object]:
    """Return a function that checks a value by `model`. If the field `flag` of the value
    is "no", the others are not checked."""

    def check(value: object) -> object:
        if as_object(value).get(flag) == "no":
            return {flag: "no"}
        return model.model_validate(value).model_dump(mode="json")

    return check


def cannot_write(judge: str) -> ConfigError:
    """The error for a judge that is no language model."""
    return ConfigError(
        f"the judge '{judge}' can't write questions: that takes a language model.",
        where="judge.name",
        hint="For example: --judge openai:gpt-5.4-mini, with OPENAI_API_KEY set.",
    )


class Drafter:
    """Asks a language model. Each method makes one call, which is cached as those for
    judgements are, and raises JudgementFailed if there is no valid reply."""

    def __init__(self, judge: Judge) -> None:
        if not isinstance(judge, LlmJudge):
            raise cannot_write(judge.identity.label())
        self._filler = judge.filler

    async def question(
        self,
        kind: Kind,
        passages: Sequence[str],
        existing: Sequence[str],
        *,
        call: Call,
    ) -> DraftedQuestion | None:
        """Write a question on `passages` that is not one of `existing`; None if the
        model finds nothing to ask."""
        prompt = prompts.DRAFT_QUESTION
        model: type[DraftedQuestion] = _AnswerableQuestion
        blocks = [Block("kind", kind), *_passage_blocks(passages)]
        if kind is Kind.UNANSWERABLE:
            prompt = prompts.DRAFT_UNANSWERABLE
            model = DraftedQuestion
            blocks = _passage_blocks(passages)
        if existing:
            numbered = [
                (str(number), text) for number, text in enumerate(existing, start=1)
            ]
            blocks.append(Block("asked", render_list(numbered)))
        field = Field(("draft",), _check(model, "possible"), _TEXT_TOKENS)
        reply = await self._filler.fill_field(prompt, field, blocks, call)
        if reply["possible"] == "no":
            return None
        return DraftedQuestion.model_validate(reply)

    async def attempt(
        self, question: str, passages: Sequence[str], *, call: Call
    ) -> str | None:
        """Answer `question` by nothing but `passages`; None if they don't answer it."""
        field = Field(("attempt",), _check(_Attempt, "answerable"), _TEXT_TOKENS)
        blocks = [Block("question", question), *_passage_blocks(passages)]
        reply = await self._filler.fill_field(
            prompts.DRAFT_ATTEMPT, field, blocks, call
        )
        answer: str | None = reply.get("answer")
        return answer

    async def inspect(
        self, question: str, reference: str, answers: Sequence[str], *, call: Call
    ) -> Inspection:
        """Read a question again, and compare each of `answers` with the reference."""
        blocks = [Block("question", question)]
        question_path = ("checks", "question")
        fields = [Field(question_path, _check(Inspection), _CHECKS_TOKENS)]
        if answers:
            blocks.append(Block("reference", reference))
        for number, answer in enumerate(answers, start=1):
            name = f"a{number}"
            blocks.append(Block(f"answer {name}", answer))
            fields.append(Field(("answers", name), _check(_Match), _MATCH_TOKENS))
        prompt = self._filler.prompts[prompts.DRAFT_INSPECTION]
        form = Form(prompt, tuple(fields))
        values = await self._filler.fill_form(form, blocks, call)
        matches = tuple(
            value_of(values, *field.path)["match"] == "same" for field in fields[1:]
        )
        checks = value_of(values, *question_path)
        return Inspection.model_validate(checks | {"matches": matches})

    async def worsen(
        self, question: str, reference: str, passages: Sequence[str], *, call: Call
    ) -> WorseAnswers:
        """Write two answers that are worse than `reference`."""
        field = Field(("worse",), _check(WorseAnswers), _TEXT_TOKENS)
        blocks = [
            Block("question", question),
            Block("reference", reference),
            *_passage_blocks(passages),
        ]
        reply = await self._filler.fill_field(prompts.DRAFT_WORSE, field, blocks, call)
        return WorseAnswers.model_validate(reply)


def _passage_blocks(texts: Sequence[str]) -> list[Block]:
    """A block of a prompt for each passage: p1, p2 and so on."""
    return [
        Block(f"passage p{number}", text) for number, text in enumerate(texts, start=1)
    ]
