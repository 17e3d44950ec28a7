"""Converts a record to one line of JSON, and back. Reading validates every field; nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter, model_validator

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.answer_kinds import AnswerKind, kind_of
from ragstone.evaluation.record import Answer, RecordLine, SampleRecord
from ragstone.evaluation.scores import fingerprint
from ragstone.evaluation.scoring import sample_state
from ragstone.golden.sample import Bound, Origin, Sample
from ragstone.judge.judgements import JudgementFailure, Judgements, StatementList, Verdict
from ragstone.judge.protocol import Ledger
from ragstone.metrics.alignment import UsedContexts, used_contexts
from ragstone.metrics.score import Failed, FailedBy, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response, SystemFailure, TokenUsage

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of samples.jsonl are rejected."""


class _ScoredLine(BaseModel):
    state: Literal["scored"]
    value: float = Field(ge=0, le=1)
    note: str | None = None

    def score(self) -> Score:
        return Scored(self.value, self.note)


class _NotApplicableLine(BaseModel):
    state: Literal["not_applicable"]
    reason: str

    def score(self) -> Score:
        return NotApplicable(self.reason)


class _FailedLine(BaseModel):
    state: Literal["failed"]
    by: FailedBy
    reason: str

    def score(self) -> Score:
        return Failed(self.by, self.reason)


_ScoreLine = Annotated[_ScoredLine | _NotApplicableLine | _FailedLine, Field(discriminator="state")]


_Sample = TypeVar("_Sample")
_Response = TypeVar("_Response")
_Judged = TypeVar("_Judged")
_Each = TypeVar("_Each", bound="_Answered[Any, Any]")


class _Answered(BaseModel, Generic[_Response, _Judged]):
    response: _Response
    judgements: tuple[_Judged, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)


class _Recorded(BaseModel, Generic[_Sample, _Response, _Judged, _Each]):
    """A line of a sample that was asked once has its response in itself; else each of its answers has one."""

    sample: _Sample
    content_hash: str
    response: _Response | None = None
    judgements: tuple[_Judged, ...] = ()
    answers: tuple[_Each, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if len(self.answers) == 1 or (self.response is None) is not (len(self.answers) > 1):
            raise ValueError("a record has either a response, or several answers")
        return self


class _AnswerLine(_Answered[Response, Judgements], extra="forbid"):
    pass


class _RecordLine(_Recorded[Sample, Response, Judgements, _AnswerLine], extra="forbid"):
    ledger: Ledger = Field(default_factory=Ledger)


class _ContextFactsLine(BaseModel):
    text: str
    id: str | None = None
    score: float | None = None


class _SupportFactsLine(BaseModel):
    verdict: Verdict
    supported_by: tuple[str, ...] = ()


class _SupportTableFactsLine(BaseModel):
    """Empty for a judgement that failed."""

    supports: tuple[_SupportFactsLine, ...] = ()


class _StatementsFactsLine(BaseModel):
    """Also a judgement that failed; `not_applicable`, since nothing is claimed."""

    abstains: bool | None = None
    statements: tuple[object, ...] = ()
    not_applicable: bool = False


class _RoundFactsLine(BaseModel):
    support: _SupportTableFactsLine | None = None
    statements: _StatementsFactsLine | None = None


class _UsageFactsLine(BaseModel):
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class _ResponseFactsLine(BaseModel):
    answer: str = ""
    contexts: tuple[_ContextFactsLine, ...] = ()
    latency_s: float | None = Field(default=None, ge=0)
    usage: _UsageFactsLine | None = None
    failure: SystemFailure | None = None


_AnswerFactsLine = _Answered[_ResponseFactsLine, _RoundFactsLine]
_FactsLine = _Recorded[Sample, _ResponseFactsLine, _RoundFactsLine, _AnswerFactsLine]
"""The parts of a record that the gate needs; the rest of the line is ignored."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """An answer without its texts. `answer` is its fingerprint, or None if the system gave none (see `failure`).
    `contexts` is a hash, which is the same only in this process.

    `used` are the contexts that support it, by its first judging round; None without contexts or support verdicts.
    """

    answer: str | None
    latency_s: float | None
    failure: str | None
    scores: Mapping[str, Score]
    repeat_scores: Mapping[str, tuple[float, ...]]
    used: UsedContexts | None = None
    usage: TokenUsage | None = None
    contexts: int = 0
    kind: AnswerKind = AnswerKind.ANSWERS

    def readings(self, metric: str) -> tuple[float, ...]:
        """The scores of all judging rounds of this answer; empty if it has no score."""
        score = self.scores.get(metric)
        return self.repeat_scores.get(metric) or ((score.value,) if isinstance(score, Scored) else ())


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """A record without its texts: what `RunScores` is made of. `reference` is a fingerprint, `parts` are those of
    `Sample.part_hashes`."""

    sample_id: str
    question: str
    tags: tuple[str, ...]
    group: str | None
    origin: Origin | None
    content_hash: str
    parts: tuple[str, ...]
    scores: Mapping[str, Score]
    answerable: bool
    reference: str | None
    answers: tuple[AnswerFacts, ...]
    draft: bool = False
    bounds: tuple[Bound, ...] = ()


_RECORD = TypeAdapter(_RecordLine)
_FACTS = TypeAdapter(_FactsLine)


def record_to_line(record: SampleRecord) -> str:
    """`record` as JSON without a line end; floats that JSON can't hold become null."""
    shared = {
        "sample": record.sample,
        "content_hash": record.sample.content_hash(),
        "scores": _scores_to_line(record.scores),
        "ledger": record.ledger,
    }
    each: list[dict[str, Any]] = [
        {
            "response": answer.response,
            "judgements": answer.judgements,
            "scores": _scores_to_line(answer.scores),
            "repeat_scores": dict(answer.repeat_scores),
        }
        for answer in record.answers
    ]
    own = each[0] if len(each) == 1 else {"answers": tuple(_AnswerLine.model_construct(**answer) for answer in each)}
    return _RecordLine.model_construct(**{**own, **shared}).model_dump_json(exclude_defaults=True)


def record_line(record: SampleRecord) -> RecordLine:
    """`record` as it is written, and what is counted of it."""
    state = sample_state(record.scores, record.responses)
    return RecordLine(record.sample.id, record.responses, state, record.ledger, record_to_line(record))


def record_from_line(line: str | bytes, where: str) -> SampleRecord:
    """The record in `line`. Raises RunDirectoryError with `where` when it is not one."""
    return _record_of(_validated(_RECORD, line, where))


def facts_from_line(line: str | bytes, where: str) -> RecordFacts:
    """The gate's view of the record in `line`; faster and smaller than the whole record."""
    return _facts_of(_validated(_FACTS, line, where))


def record_and_facts_from_line(line: str | bytes, where: str) -> tuple[SampleRecord, RecordFacts]:
    """Both, of one reading of `line`. Raises RunDirectoryError."""
    parsed = _validated(_RECORD, line, where)
    return _record_of(parsed), _facts_of(parsed)


def _record_of(parsed: _RecordLine) -> SampleRecord:
    answers = tuple(
        Answer(cast(Response, each.response), each.judgements, _scores_from_line(each.scores), each.repeat_scores)
        for each in parsed.answers or (parsed,)
    )
    return SampleRecord(parsed.sample, answers, _scores_from_line(parsed.scores), parsed.ledger)


def _facts_of(parsed: _Recorded[Any, Any, Any, Any]) -> RecordFacts:
    sample = parsed.sample
    return RecordFacts(
        sample_id=sample.id,
        question=sample.question,
        tags=sample.tags,
        group=sample.group,
        origin=sample.origin,
        content_hash=parsed.content_hash,
        parts=sample.part_hashes(),
        scores=_scores_from_line(parsed.scores),
        answerable=sample.answerable,
        reference=fingerprint(sample.reference) if sample.reference else None,
        answers=tuple(_answer_facts(line, sample) for line in parsed.answers or (parsed,)),
        draft=sample.draft,
        bounds=sample.bounds,
    )


def _answer_facts(line: _Answered[Any, Any] | _Recorded[Any, Any, Any, Any], sample: Sample) -> AnswerFacts:
    response = cast(_ResponseFactsLine | Response, line.response)
    failure, usage = response.failure, response.usage
    return AnswerFacts(
        answer=None if failure else fingerprint(response.answer),
        latency_s=response.latency_s,
        failure=f"{failure.kind}: {failure.message}" if failure else None,
        scores=_scores_from_line(line.scores),
        repeat_scores=line.repeat_scores,
        used=_used(response, line.judgements),
        usage=None if usage is None else TokenUsage(usage.input_tokens, usage.output_tokens),
        contexts=hash(tuple((one.text, one.id, one.score) for one in response.contexts)),
        kind=AnswerKind.ANSWERS if failure else _kind(response, line.judgements, sample),
    )


def _kind(
    response: _ResponseFactsLine | Response,
    judgements: Sequence[_RoundFactsLine | Judgements],
    sample: Sample,
) -> AnswerKind:
    found = judgements[0].statements if judgements else None
    abstains, claims = None, True
    if isinstance(found, _StatementsFactsLine | StatementList):
        abstains = found.abstains
        claims = bool(found.statements) or found.abstains is None
    if isinstance(found, _StatementsFactsLine | JudgementFailure):
        claims = claims and not found.not_applicable
    contexts = tuple(Context(one.text, one.id) for one in response.contexts)
    return kind_of(response.answer, sample.question, sample.reference, contexts, abstains=abstains, claims=claims)


def _used(
    response: _ResponseFactsLine | Response, judgements: Sequence[_RoundFactsLine | Judgements]
) -> UsedContexts | None:
    support = judgements[0].support if judgements else None
    if support is None or isinstance(support, JudgementFailure) or not support.supports or not response.contexts:
        return None
    supporting = [name for one in support.supports if one.verdict is Verdict.SUPPORTED for name in one.supported_by]
    return used_contexts([context.text for context in response.contexts], supporting)


_Line = TypeVar("_Line")


def _validated(adapter: TypeAdapter[_Line], line: str | bytes, where: str) -> _Line:
    hint = "The file was changed or truncated; run the evaluation again."
    with parse_errors(where, "not a sample record", kind=RunDirectoryError, hint=hint):
        return adapter.validate_json(line)


def _scores_to_line(scores: Mapping[str, Score]) -> dict[str, _ScoredLine | _NotApplicableLine | _FailedLine]:
    return {name: _score_to_line(score) for name, score in scores.items()}


def _score_to_line(score: Score) -> _ScoredLine | _NotApplicableLine | _FailedLine:
    match score:
        case Scored(value, note):
            return _ScoredLine(state="scored", value=value, note=note)
        case NotApplicable(reason):
            return _NotApplicableLine(state="not_applicable", reason=reason)
        case Failed(by, reason):
            return _FailedLine(state="failed", by=by, reason=reason)


def _scores_from_line(lines: Mapping[str, _ScoredLine | _NotApplicableLine | _FailedLine]) -> dict[str, Score]:
    return {name: line.score() for name, line in lines.items()}


def is_complete_line(line: bytes) -> bool:
    """Whether `line` ends as a written record does; the last line of a killed run may not."""
    if not line.endswith(b"}\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
