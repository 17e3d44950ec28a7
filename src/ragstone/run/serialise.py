"""Converts a record to one line of JSON, and back. Reading validates every field; nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.golden.sample import Origin, Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.run.record import SampleRecord
from ragstone.run.scores import fingerprint
from ragstone.system.response import Response, SystemFailureKind

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of samples.jsonl are rejected."""


class _ScoredLine(BaseModel):
    state: Literal["scored"]
    value: float = Field(ge=0, le=1)
    note: str | None = None


class _NotApplicableLine(BaseModel):
    state: Literal["not_applicable"]
    reason: str


class _FailedLine(BaseModel):
    state: Literal["failed"]
    by: Literal["system", "judge"]
    reason: str


_ScoreLine = Annotated[_ScoredLine | _NotApplicableLine | _FailedLine, Field(discriminator="state")]


class _RecordLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sample: Sample
    content_hash: str
    response: Response
    judgements: tuple[Judgements, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    ledger: Ledger = Field(default_factory=Ledger)


class _SampleFactsLine(BaseModel):
    id: str
    question: str
    tags: tuple[str, ...] = ()
    group: str | None = None
    origin: Origin | None = None
    answerable: bool = True
    reference: str | None = None


class _FailureFactsLine(BaseModel):
    kind: SystemFailureKind
    message: str


class _ResponseFactsLine(BaseModel):
    answer: str = ""
    latency_s: float | None = Field(default=None, ge=0)
    failure: _FailureFactsLine | None = None


class _FactsLine(BaseModel):
    """The parts of a record that the gate needs; the rest of the line is ignored."""

    sample: _SampleFactsLine
    content_hash: str
    response: _ResponseFactsLine
    scores: dict[str, _ScoreLine]


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """A record without its texts: what `RunScores` is made of. `answer` and `reference` are fingerprints."""

    sample_id: str
    question: str
    tags: tuple[str, ...]
    group: str | None
    origin: Origin | None
    content_hash: str
    latency_s: float | None
    failure: str | None
    scores: Mapping[str, Score]
    answerable: bool
    reference: str | None
    answer: str | None


_RECORD = TypeAdapter(_RecordLine)
_FACTS = TypeAdapter(_FactsLine)


def record_to_line(record: SampleRecord) -> str:
    """`record` as JSON without a line end; floats that JSON can't hold become null."""
    return _RecordLine.model_construct(
        sample=record.sample,
        content_hash=record.sample.content_hash(),
        response=record.response,
        judgements=record.judgements,
        scores={name: _score_to_line(score) for name, score in record.scores.items()},
        repeat_scores=dict(record.repeat_scores),
        ledger=record.ledger,
    ).model_dump_json(exclude_defaults=True)


def record_from_line(line: str | bytes, where: str) -> SampleRecord:
    """The record in `line`. Raises RunDirectoryError with `where` when it is not one."""
    parsed = _validated(_RECORD, line, where)
    return SampleRecord(
        sample=parsed.sample,
        response=parsed.response,
        judgements=parsed.judgements,
        scores={name: _score_from_line(score) for name, score in parsed.scores.items()},
        repeat_scores=parsed.repeat_scores,
        ledger=parsed.ledger,
    )


def facts_from_line(line: str | bytes, where: str) -> RecordFacts:
    """The gate's view of the record in `line`; faster and smaller than the whole record."""
    parsed = _validated(_FACTS, line, where)
    failure = parsed.response.failure
    return RecordFacts(
        sample_id=parsed.sample.id,
        question=parsed.sample.question,
        tags=parsed.sample.tags,
        group=parsed.sample.group,
        origin=parsed.sample.origin,
        content_hash=parsed.content_hash,
        latency_s=parsed.response.latency_s,
        failure=f"{failure.kind}: {failure.message}" if failure else None,
        answerable=parsed.sample.answerable,
        reference=fingerprint(parsed.sample.reference) if parsed.sample.reference else None,
        answer=None if failure else fingerprint(parsed.response.answer),
        scores={name: _score_from_line(score) for name, score in parsed.scores.items()},
    )


_Line = TypeVar("_Line")


def _validated(adapter: TypeAdapter[_Line], line: str | bytes, where: str) -> _Line:
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RunDirectoryError(
            f"not a sample record: {place or 'line'}: {first['msg']}.",
            where=where,
            hint="The file was changed or truncated; run the evaluation again.",
        ) from None


def _score_to_line(score: Score) -> _ScoredLine | _NotApplicableLine | _FailedLine:
    match score:
        case Scored(value, note):
            return _ScoredLine(state="scored", value=value, note=note)
        case NotApplicable(reason):
            return _NotApplicableLine(state="not_applicable", reason=reason)
        case Failed(by, reason):
            return _FailedLine(state="failed", by=by, reason=reason)


def _score_from_line(line: _ScoredLine | _NotApplicableLine | _FailedLine) -> Score:
    match line:
        case _ScoredLine():
            return Scored(line.value, line.note)
        case _NotApplicableLine():
            return NotApplicable(line.reason)
        case _FailedLine():
            return Failed(line.by, line.reason)


def is_complete_line(line: bytes) -> bool:
    """Whether `line` ends as a written record does; the last line of a killed run may not."""
    if not line.endswith(b"}\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
