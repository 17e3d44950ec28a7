"""The samples of a run, one by one, and as a table with the same columns in every tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.report.escape import bounded
from ragstone.run.record import SampleRecord
from ragstone.tools.export.facts import FinishedRun, LeftOut

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


Cell = str | float | int | bool | None

_FACTS = ("id", "tags", "draft", "latency_s", "input_tokens", "output_tokens", "failure")
_TEXTS = ("question", "answer", "reference")
_NOTHING: Mapping[str, object] = MappingProxyType({})
LEFT_OUT = tuple(part.name for part in fields(LeftOut))


def columns(found: FinishedRun) -> tuple[str, ...]:
    """The names of the columns. Each metric has two: its score, and why there is none."""
    metrics = (name for metric in found.run.manifest.metrics for name in (metric, f"{metric}.no_score"))
    return (*_FACTS, *metrics, *(_TEXTS if found.texts else ()))


def table(found: FinishedRun) -> Iterator[tuple[Cell, ...]]:
    """Every sample as the cells of a row; what is not known is None. Raises RunDirectoryError."""
    for row in sample_rows(found):
        yield tuple(_cells(found, row))


def _cells(found: FinishedRun, row: SampleRow) -> Iterator[Cell]:
    yield from (row.id, ", ".join(row.tags), row.draft)
    yield from (row.latency_s, row.input_tokens, row.output_tokens, row.failure)
    for metric in found.run.manifest.metrics:
        match row.scores.get(metric):
            case Scored(value):
                yield from (value, None)
            case NotApplicable(reason):
                yield from (None, f"not applicable: {reason}" if reason else "not applicable")
            case Failed(by, reason):
                yield from (None, f"failed by {by}: {reason}" if reason else f"failed by {by}")
            case None:
                yield from (None, "not scored")
    if row.texts is not None:
        yield from (row.texts[name] for name in _TEXTS)


def write_json(
    path: Path, names: Sequence[str], rows: Iterator[tuple[Cell, ...]], beside: Mapping[str, object] = _NOTHING
) -> None:
    """Write a table as pandas' ``orient="split"`` does, row by row: ``{"columns": […], "data": […]}``, and `beside`."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(f'{json.dumps({**beside, "columns": list(names)})[:-1]}, "data": [')
        for number, row in enumerate(rows):
            out.write("\n" if number == 0 else ",\n")
            out.write(json.dumps(row, allow_nan=False))
        out.write("]}\n")
