"""The samples of a run, one by one, as other tools want them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.report.escape import bounded
from ragstone.run.record import SampleRecord
from ragstone.tools.export.facts import FinishedRun

TEXT_CHARS = 10_000
"""Longer questions, answers and references are cut."""
REASON_CHARS = 1_000

_ID_CHARS = 256
_TRACE = re.compile(r"[0-9a-f]{32}")
_SPAN = re.compile(r"[0-9a-f]{16}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One sample, its scores, and how the system behaved. A `draft` is in no mean.

    `failure` is the kind of the system's failure, if it failed. Without `texts`, no score has a note or a message of
    the system, the judge or a user's function. `response_id`, `trace` and `span` (0: not known) are what the answer
    says of itself.
    """

    id: str
    tags: tuple[str, ...]
    draft: bool
    scores: Mapping[str, Score]
    latency_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    failure: str | None
    response_id: str | None
    trace: int
    span: int
    texts: Mapping[str, str] | None


def sample_rows(found: FinishedRun) -> Iterator[SampleRow]:
    """Every sample of a run, in its order; only one is in memory at a time. Raises RunDirectoryError."""
    for record in found.run.records():
        yield _row(found, record)


def _row(found: FinishedRun, record: SampleRecord) -> SampleRow:
    sample, response = record.sample, record.response
    failure = next((one.failure for one in record.responses if one.failure is not None), None)
    alone = len(record.answers) == 1
    extra = response.extra if alone else {}
    response_id = extra.get("response_id")
    trace, span = _span(extra)
    texts = {"question": sample.question, "answer": response.answer, "reference": sample.reference or ""}
    return SampleRow(
        id=found.redact(sample.id),
        tags=tuple(found.redact(tag) for tag in sample.tags),
        draft=sample.draft,
        scores={name: _shown(found, name, score) for name, score in record.scores.items()},
        latency_s=response.latency_s,
        input_tokens=None if response.usage is None else response.usage.input_tokens,
        output_tokens=None if response.usage is None else response.usage.output_tokens,
        failure=None if failure is None else failure.kind.value,
        response_id=found.redact(response_id)[:_ID_CHARS] if isinstance(response_id, str) and response_id else None,
        trace=trace,
        span=span,
        texts={name: bounded(found.redact(text), TEXT_CHARS) for name, text in texts.items()} if found.texts else None,
    )


def _shown(found: FinishedRun, metric: str, score: Score) -> Score:
    match score:
        case Scored(value, note):
            return Scored(value, bounded(found.redact(note), REASON_CHARS) if note and found.texts else None)
        case NotApplicable(reason):
            return NotApplicable(bounded(found.redact(reason), REASON_CHARS) if found.shows_why(metric) else "")
        case Failed(_, reason):
            return replace(score, reason=bounded(found.redact(reason), REASON_CHARS) if found.texts else "")


def _span(extra: Mapping[str, object]) -> tuple[int, int]:
    """Trace and span in `traceparent` (W3C Trace Context), else in `trace_id` and `span_id`, both in hexadecimal."""
    whole = _TRACEPARENT.fullmatch(_text(extra, "traceparent"))
    trace, span = whole.groups() if whole is not None else (_text(extra, "trace_id"), _text(extra, "span_id"))
    if _TRACE.fullmatch(trace) is None or not int(trace, 16):
        return 0, 0
    return int(trace, 16), int(span, 16) if _SPAN.fullmatch(span) else 0


def _text(extra: Mapping[str, object], name: str) -> str:
    value = extra.get(name)
    return value.strip().lower().removeprefix("0x") if isinstance(value, str) else ""
