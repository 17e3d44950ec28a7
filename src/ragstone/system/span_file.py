"""Spans in a file beside recorded answers: `outputs.spans.jsonl` or
`outputs.spans.json` beside `outputs.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ragstone.errors import SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden.rows import MAX_DOCUMENT_BYTES, SourceFile
from ragstone.system.worker.fields import BadReturn
from ragstone.system.worker.spans import spans_in, steps_of_spans, trace_of

ENDINGS = (".spans.jsonl", ".spans.json")

Steps = list[dict[str, Any]]


def steps_beside(answers: SourceFile) -> dict[str, Steps]:
    """The steps of each trace in the file of spans beside `answers`, by the key of the
    trace; empty without a file.

    The file is JSON Lines of spans or of OTLP documents, or one such value. Raises
    SystemUnderTestError, and OSError.
    """
    for ending in ENDINGS:
        path = answers.path.with_suffix(ending)
        if path.exists():
            with open_regular(
                path, within=answers.within, limit=MAX_DOCUMENT_BYTES
            ) as file:
                return _steps_by_trace(file.read(), path.name)
    return {}


def _steps_by_trace(body: bytes, name: str) -> dict[str, Steps]:
    by_trace: dict[str, list[object]] = {}
    for line, value in _values(body, name):
        try:
            spans = spans_in(value)
        except BadReturn:
            raise _unread(name, line, "too many spans in one line") from None
        if spans is None:
            raise _unread(name, line, "neither spans nor a document of OTLP")
        for span in spans:
            by_trace.setdefault(trace_of(span), []).append(span)
    return {trace: steps_of_spans(spans) for trace, spans in by_trace.items()}


def _values(body: bytes, name: str) -> Iterator[tuple[int, object]]:
    """The JSON that `body` is, or that is in each of its lines, with its line."""
    try:
        yield 1, json.loads(body)
        return
    except (ValueError, RecursionError):
        lines = body.splitlines()
    for line, text in enumerate(lines, 1):
        try:
            if text.strip():
                yield line, json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _unread(name, line, f"not valid JSON ({error})") from None


def _unread(name: str, line: int, reason: str) -> SystemUnderTestError:
    return SystemUnderTestError(
        f"the spans of the recorded answers can't be read: {reason}.",
        where=f"{name}:{line}",
        hint="Expected OTLP/JSON as the collector's file exporter writes it, or a span as JSON in each line.",
    )
