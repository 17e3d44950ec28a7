"""The record of a finished sample: question, answers, judgements and scores. In
samples.jsonl, it is a line of JSON.

Reading a line validates every field; nothing is unpickled or executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from msgspec import Struct
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    WrapSerializer,
    with_config,
)

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum length of a line in samples.jsonl."""


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


_WITHOUT_STATE = BeforeValidator(_without_state)
StoredScore = Annotated[
    Annotated[Scored, _WITHOUT_STATE, Tag("scored")]
    | Annotated[NotApplicable, _WITHOUT_STATE, Tag("not_applicable")]
    | Annotated[Failed, _WITHOUT_STATE, Tag("failed")],
    Discriminator(_state_of),
    WrapSerializer(_with_state),
]
"""A score that is stored with its `state`, by which it is read again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the system to a sample, judged and scored.

    `judgements` has one entry for each judging round; `scores` has metric names as
    keys.
    """

    response: Response
    judgements: tuple[Judgements, ...] = ()
    scores: Mapping[str, StoredScore] = field(default_factory=dict)

    @property
    def rounds(self) -> tuple[Judgements, ...]:
        """The judging rounds; a single empty one if the answer was not judged."""
        return self.judgements or (Judgements(),)

    @property
    def judged(self) -> Judgements:
        """The first judging round; empty if the answer was not judged."""
        return self.rounds[0]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class SampleRecord:
    """The record of a finished sample.

    - `answers`: at least one; those of the run itself, in the order in which they were
      asked for, before those of earlier runs.
    - `scores`: the scores of all answers, combined by `scoring.combine_answers`.
    - `ledger`: the cost of judging the answers.
    """

    sample: Sample
    answers: Annotated[tuple[Answer, ...], Field(min_length=1)]
    scores: Mapping[str, StoredScore] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def response(self) -> Response:
        """The first response."""
        return self.answers[0].response

    @property
    def responses(self) -> tuple[Response, ...]:
        """The response of each answer."""
        return tuple(answer.response for answer in self.answers)

    @property
    def state(self) -> str:
        """``system_failed`` if a response failed, ``partly_failed`` if a score did,
        else ``scored``; the manifest counts samples by it."""
        if any(response.failure is not None for response in self.responses):
            return "system_failed"
        if any(isinstance(score, Failed) for score in self.scores.values()):
            return "partly_failed"
        return "scored"


class RecordLine(Struct, frozen=True):
    """A record as JSON, with what the manifest counts of it."""

    sample_id: str
    state: str
    ledger: Ledger
    line: str
    """The record as JSON, without a line end."""


def record_to_line(record: SampleRecord) -> str:
    """`record` as JSON without a line end; infinite floats and NaN become null."""
    return _adapter().dump_json(record, exclude_defaults=True).decode()


def record_line(record: SampleRecord) -> RecordLine:
    """`record` as JSON, with what the manifest counts of it."""
    return RecordLine(
        record.sample.id, record.state, record.ledger, record_to_line(record)
    )


def record_from_line(line: str | bytes, where: str) -> SampleRecord:
    """The record in `line`. Raises RunDirectoryError, with `where` as its place, if it
    is not valid."""
    hint = "The file was changed or truncated; run the evaluation again."
    with parse_errors(where, "not a sample record", kind=RunDirectoryError, hint=hint):
        return _adapter().validate_json(line)


@cache
def _adapter() -> TypeAdapter[SampleRecord]:
    """What reads and writes records; built when it is first used."""
    return TypeAdapter(SampleRecord)
