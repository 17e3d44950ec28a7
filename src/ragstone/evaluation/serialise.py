"""Converts a record to one line of JSON, and back. Reading validates every field;
nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.record import Answer, RecordLine, SampleRecord
from ragstone.evaluation.scoring import sample_state
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, FailedBy, NotApplicable, Score, Scored
from ragstone.system.response import Response

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of samples.jsonl are rejected."""


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True)


class _ScoredLine(_Part):
    state: Literal["scored"]
    value: float = Field(ge=0, le=1)
    note: str | None = None

    def score(self) -> Score:
        return Scored(self.value, self.note)


class _NotApplicableLine(_Part):
    state: Literal["not_applicable"]
    reason: str

    def score(self) -> Score:
        return NotApplicable(self.reason)


class _FailedLine(_Part):
    state: Literal["failed"]
    by: FailedBy
    reason: str

    def score(self) -> Score:
        return Failed(self.by, self.reason)


_ScoreLine = Annotated[
    _ScoredLine | _NotApplicableLine | _FailedLine, Field(discriminator="state")
]


def _not_negative(response: Response) -> Response:
    """`response`, if its latency and its tokens are not negative."""
    usage = response.usage
    tokens = () if usage is None else (usage.input_tokens, usage.output_tokens)
    if any(number < 0 for number in (response.latency_s or 0.0, *tokens)):
        raise ValueError("latency and tokens can't be negative")
    return response


_Response = Annotated[Response, AfterValidator(_not_negative)]


class _AnswerLine(_Part, extra="forbid"):
    response: _Response
    judgements: tuple[Judgements, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)


class _RecordLine(_Part, extra="forbid"):
    """A line of a sample that was asked once has its response in itself; else each of
    its answers has one."""

    sample: Sample
    response: _Response | None = None
    judgements: tuple[Judgements, ...] = ()
    answers: tuple[_AnswerLine, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    ledger: Ledger = Field(default_factory=Ledger)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if len(self.answers) == 1 or (self.response is None) is not (
            len(self.answers) > 1
        ):
            raise ValueError("a record has either a response, or several answers")
        return self


def record_to_line(record: SampleRecord) -> str:
    """`record` as JSON without a line end; floats that JSON can't hold become null."""
    shared = {
        "sample": record.sample,
        "scores": _scores_to_line(record.scores),
        "ledger": record.ledger,
    }
    answers: list[dict[str, Any]] = [
        {
            "response": answer.response,
            "judgements": answer.judgements,
            "scores": _scores_to_line(answer.scores),
            "repeat_scores": dict(answer.repeat_scores),
        }
        for answer in record.answers
    ]
    own = (
        answers[0]
        if len(answers) == 1
        else {
            "answers": tuple(
                _AnswerLine.model_construct(**answer) for answer in answers
            )
        }
    )
    return _RecordLine.model_construct(**{**own, **shared}).model_dump_json(
        exclude_defaults=True
    )


def record_line(record: SampleRecord) -> RecordLine:
    """`record` as it is written, and what is counted of it."""
    state = sample_state(record.scores, record.responses)
    return RecordLine(record.sample.id, state, record.ledger, record_to_line(record))


def record_from_line(line: str | bytes, where: str) -> SampleRecord:
    """The record in `line`. Raises RunDirectoryError with `where` when it is not
    one."""
    hint = "The file was changed or truncated; run the evaluation again."
    with parse_errors(where, "not a sample record", kind=RunDirectoryError, hint=hint):
        parsed = _RecordLine.model_validate_json(line)
    answers = tuple(
        Answer(
            cast(Response, answer.response),
            answer.judgements,
            _scores_from_line(answer.scores),
            answer.repeat_scores,
        )
        for answer in parsed.answers or (parsed,)
    )
    return SampleRecord(
        parsed.sample, answers, _scores_from_line(parsed.scores), parsed.ledger
    )


def _scores_to_line(
    scores: Mapping[str, Score],
) -> dict[str, _ScoredLine | _NotApplicableLine | _FailedLine]:
    return {name: _score_to_line(score) for name, score in scores.items()}


def _score_to_line(score: Score) -> _ScoredLine | _NotApplicableLine | _FailedLine:
    match score:
        case Scored(value, note):
            return _ScoredLine(state="scored", value=value, note=note)
        case NotApplicable(reason):
            return _NotApplicableLine(state="not_applicable", reason=reason)
        case Failed(by, reason):
            return _FailedLine(state="failed", by=by, reason=reason)


def _scores_from_line(
    lines: Mapping[str, _ScoredLine | _NotApplicableLine | _FailedLine],
) -> dict[str, Score]:
    return {name: line.score() for name, line in lines.items()}


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
