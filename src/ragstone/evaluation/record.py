"""One finished sample: question, answers, judgements and scores; and the line of JSON
that it is in samples.jsonl.

Reading a line validates every field; nothing is unpickled or executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import msgspec
from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
    model_validator,
)

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of samples.jsonl are rejected."""


_STATES = {Scored: "scored", NotApplicable: "not_applicable", Failed: "failed"}


def _state_of(score: Any) -> Any:
    return score.get("state") if isinstance(score, dict) else _STATES.get(type(score))


def _without_state(score: Any) -> Any:
    if isinstance(score, dict):
        score.pop("state")
    return score


def _with_state(
    score: Score, serialise: SerializerFunctionWrapHandler
) -> dict[str, Any]:
    return {"state": _STATES[type(score)], **serialise(score)}


def _not_negative(response: Response) -> Response:
    """`response`, if its latency and its tokens are not negative."""
    usage = response.usage
    tokens = () if usage is None else (usage.input_tokens, usage.output_tokens)
    if any(number < 0 for number in (response.latency_s or 0.0, *tokens)):
        raise ValueError("latency and tokens can't be negative")
    return response


_WITHOUT_STATE = BeforeValidator(_without_state)
StoredScore = Annotated[
    Annotated[Scored, _WITHOUT_STATE, Tag("scored")]
    | Annotated[NotApplicable, _WITHOUT_STATE, Tag("not_applicable")]
    | Annotated[Failed, _WITHOUT_STATE, Tag("failed")],
    Discriminator(_state_of),
    WrapSerializer(_with_state),
]
"""A score, which in a file has its `state`."""

StoredResponse = Annotated[Response, AfterValidator(_not_negative)]


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the system to a sample, judged and scored.

    `judgements` has one entry per repeat. `scores` is by metric name; `repeat_scores`
    has the value of each repeat if there were several (only scored ones), for variance
    components.
    """

    response: StoredResponse
    judgements: tuple[Judgements, ...] = ()
    scores: Mapping[str, StoredScore] = field(default_factory=dict)
    repeat_scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def judged(self) -> Judgements:
        """The first judging round; empty if there was none."""
        return self.judgements[0] if self.judgements else Judgements()


class SampleRecord(Struct, frozen=True):
    """A line of samples.jsonl.

    `answers` are in the order in which the system was asked: at least one. `scores`
    combine theirs (`scoring.combine_answers`). `ledger` is the cost of judging them
    all.
    """

    sample: Sample
    answers: tuple[Answer, ...]
    scores: Mapping[str, Score] = {}
    ledger: Ledger = msgspec.field(default_factory=Ledger)

    @property
    def response(self) -> Response:
        return self.answers[0].response

    @property
    def judgements(self) -> tuple[Judgements, ...]:
        return self.answers[0].judgements

    @property
    def responses(self) -> tuple[Response, ...]:
        """Every response, in the order in which the system was asked."""
        return tuple(answer.response for answer in self.answers)

    @property
    def state(self) -> str:
        """``system_failed``, ``partly_failed`` or ``scored``, as the manifest counts
        samples: the first if one of the responses failed."""
        if any(response.failure is not None for response in self.responses):
            return "system_failed"
        if any(isinstance(score, Failed) for score in self.scores.values()):
            return "partly_failed"
        return "scored"


class RecordLine(Struct, frozen=True):
    """A record as it is written, and what is counted of it. `line` is JSON, without a
    line end. `state` is that of the record."""

    sample_id: str
    state: str
    ledger: Ledger
    line: str


class _Line(BaseModel):
    """A line of a sample that was asked once has its response in itself; else each of
    its answers has one."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    sample: Sample
    response: StoredResponse | None = None
    judgements: tuple[Judgements, ...] = ()
    answers: tuple[Answer, ...] = ()
    scores: Mapping[str, StoredScore]
    repeat_scores: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    ledger: Ledger = Field(default_factory=Ledger)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if len(self.answers) == 1 or bool(self.answers) is (self.response is not None):
            raise ValueError("a record has either a response, or several answers")
        return self


def record_to_line(record: SampleRecord) -> str:
    """`record` as JSON without a line end; floats that JSON can't hold become null."""
    answers: dict[str, Any] = {"answers": record.answers}
    if len(record.answers) == 1:
        (answer,) = record.answers
        answers = {
            "response": answer.response,
            "judgements": answer.judgements,
            "repeat_scores": answer.repeat_scores,
        }
    line = _Line.model_construct(
        sample=record.sample, scores=record.scores, ledger=record.ledger, **answers
    )
    return line.model_dump_json(exclude_defaults=True)


def record_line(record: SampleRecord) -> RecordLine:
    """`record` as it is written, and what is counted of it."""
    return RecordLine(
        record.sample.id, record.state, record.ledger, record_to_line(record)
    )


def record_from_line(line: str | bytes, where: str) -> SampleRecord:
    """The record in `line`. Raises RunDirectoryError with `where` when it is not
    one."""
    hint = "The file was changed or truncated; run the evaluation again."
    with parse_errors(where, "not a sample record", kind=RunDirectoryError, hint=hint):
        parsed = _Line.model_validate_json(line)
    answers = parsed.answers
    if parsed.response is not None:
        answer = Answer(
            parsed.response, parsed.judgements, parsed.scores, parsed.repeat_scores
        )
        answers = (answer,)
    return SampleRecord(parsed.sample, answers, parsed.scores, parsed.ledger)


def is_complete_line(line: bytes) -> bool:
    """Whether `line` ends as a written record does; the last line of a killed run may
    not."""
    if not line.endswith(b"}\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
