"""Converts a record to one line of JSON, and back. Reading validates every field; nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.answer_kinds import AnswerKind, kind_of
from ragstone.evaluation.ranked import RankedContexts, ranked_contexts
from ragstone.evaluation.record import Answer, RecordLine, SampleRecord
from ragstone.evaluation.rewording import Rewording, rewording_of
from ragstone.evaluation.scores import VerdictCounts, fingerprint
from ragstone.evaluation.scoring import sample_state
from ragstone.golden.sample import Bound, Origin, Sample
from ragstone.judge.judgements import JudgementFailure, Judgements, StatementList, SupportTable, Verdict
from ragstone.judge.protocol import Ledger
from ragstone.metrics.alignment import UsedContexts, used_contexts
from ragstone.metrics.citations import cites_what_is_there
from ragstone.metrics.score import Failed, FailedBy, NotApplicable, Score, Scored
from ragstone.system.response import Response, TokenUsage

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


_ScoreLine = Annotated[_ScoredLine | _NotApplicableLine | _FailedLine, Field(discriminator="state")]


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
    """A line of a sample that was asked once has its response in itself; else each of its answers has one."""

    sample: Sample
    content_hash: str
    response: _Response | None = None
    judgements: tuple[Judgements, ...] = ()
    answers: tuple[_AnswerLine, ...] = ()
    scores: dict[str, _ScoreLine]
    repeat_scores: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    ledger: Ledger = Field(default_factory=Ledger)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if len(self.answers) == 1 or (self.response is None) is not (len(self.answers) > 1):
            raise ValueError("a record has either a response, or several answers")
        return self


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """An answer without its texts. `answer` is its fingerprint, or None if the system gave none (see `failure`).
    `contexts` is a hash, which is the same only in this process.

    `used` are the contexts that support it, by its first judging round; None without contexts or support verdicts.
    `citations`: whether all that it cites is among its contexts; None if it cites nothing. `rewording` is what its
    words show.
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
    ranked: RankedContexts = field(default_factory=RankedContexts)
    citations: bool | None = None
    rewording: Rewording = field(default_factory=Rewording)
    verdicts: VerdictCounts | None = None

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
    return _record_of(_parsed(line, where))


def record_and_facts_from_line(line: str | bytes, where: str) -> tuple[SampleRecord, RecordFacts]:
    """The record in `line`, and the gate's view of it. Raises RunDirectoryError with `where` when it is not one."""
    parsed = _parsed(line, where)
    record = _record_of(parsed)
    return record, _facts_of(record, parsed.content_hash)


def _parsed(line: str | bytes, where: str) -> _RecordLine:
    hint = "The file was changed or truncated; run the evaluation again."
    with parse_errors(where, "not a sample record", kind=RunDirectoryError, hint=hint):
        return _RecordLine.model_validate_json(line)


def _record_of(parsed: _RecordLine) -> SampleRecord:
    answers = tuple(
        Answer(cast(Response, each.response), each.judgements, _scores_from_line(each.scores), each.repeat_scores)
        for each in parsed.answers or (parsed,)
    )
    return SampleRecord(parsed.sample, answers, _scores_from_line(parsed.scores), parsed.ledger)


def _facts_of(record: SampleRecord, content_hash: str) -> RecordFacts:
    sample = record.sample
    return RecordFacts(
        sample_id=sample.id,
        question=sample.question,
        tags=sample.tags,
        group=sample.group,
        origin=sample.origin,
        content_hash=content_hash,
        parts=sample.part_hashes(),
        scores=record.scores,
        answerable=sample.answerable,
        reference=fingerprint(sample.reference) if sample.reference else None,
        answers=tuple(_answer_facts(answer, sample) for answer in record.answers),
        draft=sample.draft,
        bounds=sample.bounds,
    )


def _answer_facts(answer: Answer, sample: Sample) -> AnswerFacts:
    response = answer.response
    failure = response.failure
    judged = answer.judged
    return AnswerFacts(
        answer=None if failure else fingerprint(response.answer),
        latency_s=response.latency_s,
        failure=f"{failure.kind}: {failure.message}" if failure else None,
        scores=answer.scores,
        repeat_scores=answer.repeat_scores,
        used=_used(answer),
        usage=response.usage,
        contexts=hash(tuple((context.text, context.id, context.score) for context in response.contexts)),
        kind=AnswerKind.ANSWERS if failure else _kind(answer, sample),
        ranked=ranked_contexts(sample, response, judged),
        citations=cites_what_is_there(response.answer, response.contexts) if response.contexts else None,
        rewording=Rewording() if failure else rewording_of(answer, sample),
        verdicts=_verdict_counts(judged),
    )


def _verdict_counts(judged: Judgements) -> VerdictCounts | None:
    """The counts of supported statements; None if there are none."""
    if not isinstance(judged.support, SupportTable):
        return None
    supported = [support for support in judged.support.supports if support.verdict is Verdict.SUPPORTED]
    if not supported:
        return None
    return VerdictCounts(
        supported=len(supported),
        unquoted=sum(support.unquoted for support in supported),
        disputed=sum(bool(support.contradicted_by) for support in supported),
    )


def _kind(answer: Answer, sample: Sample) -> AnswerKind:
    response = answer.response
    statements = answer.judged.statements
    abstains, claims = None, True
    if isinstance(statements, StatementList):
        abstains = statements.abstains
        claims = bool(statements.statements)
    elif isinstance(statements, JudgementFailure):
        claims = not statements.not_applicable
    return kind_of(
        response.answer, sample.question, sample.reference, response.contexts, abstains=abstains, claims=claims
    )


def _used(answer: Answer) -> UsedContexts | None:
    support = answer.judged.support
    contexts = answer.response.contexts
    if not isinstance(support, SupportTable) or not support.supports or not contexts:
        return None
    supporting = [
        context for each in support.supports if each.verdict is Verdict.SUPPORTED for context in each.supported_by
    ]
    return used_contexts([context.text for context in contexts], supporting)


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
