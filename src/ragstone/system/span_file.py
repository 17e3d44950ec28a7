"""Reads the spans of recorded answers from the file next to theirs: for `outputs.jsonl`
it is `outputs.spans.jsonl`."""

from __future__ import annotations

import json
from typing import Any

from ragstone.errors import SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden.rows import MAX_DOCUMENT_BYTES, SourceFile
from ragstone.system.worker.fields import BadReturn
from ragstone.system.worker.spans import spans_in, steps_of_spans, trace_of

ENDING = ".spans.jsonl"

Steps = list[dict[str, Any]]


def steps_beside(answers: SourceFile) -> dict[str, Steps]:
    """The steps in the file of spans that belongs to `answers`, by `trace_key`; empty
    if there is no such file.

    Each line of the file is a span, or a document of OTLP. Raises OSError, and
    SystemUnderTestError with the line that can't be read.
    """
    path = answers.path.with_suffix(ENDING)
    if not path.exists():
        return {}
    by_trace: dict[str, list[object]] = {}
    with open_regular(path, within=answers.within, limit=MAX_DOCUMENT_BYTES) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                for span in _spans(line, f"{path.name}:{number}"):
                    by_trace.setdefault(trace_of(span), []).append(span)
    return {trace: steps_of_spans(spans) for trace, spans in by_trace.items()}


def _spans(line: bytes, where: str) -> list[Any]:
    """The spans in a line. Raises SystemUnderTestError."""
    try:
        spans = spans_in(json.loads(line))
        reason = "neither spans nor a document of OTLP"
    except (BadReturn, ValueError, RecursionError) as error:
        spans = None
        reason = str(error)
    if spans is None:
        raise SystemUnderTestError(
            f"the spans of the recorded answers can't be read: {reason}.",
            where=where,
            hint="Expected OTLP/JSON as the collector's file exporter writes it, or a span as JSON in each line.",
        )
    return spans
