"""Converts a record to one line of JSON, and back. Reading validates every field;
nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.record import (
    Answer,
    RecordLine,
    SampleRecord,
    StoredResponse,
    StoredScore,
)
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of samples.jsonl are rejected."""


class _RecordLine(BaseModel):
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
    line = _RecordLine.model_construct(
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
        parsed = _RecordLine.model_validate_json(line)
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
