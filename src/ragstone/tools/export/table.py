"""The samples of a run as a table, one row each, with the same columns in every tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import SampleRow, sample_rows

Cell = str | float | int | bool | None

_FACTS = ("id", "tags", "draft", "latency_s", "input_tokens", "output_tokens", "failure")
_TEXTS = ("question", "answer", "reference")
_NOTHING: Mapping[str, object] = MappingProxyType({})
LEFT_OUT = ("metric", "state", "by", "reason", "samples")


def columns(found: FinishedRun) -> tuple[str, ...]:
    """The names of the columns. Each metric has two: its score, and why there is none."""
    metrics = (name for metric in found.manifest.metrics for name in (metric, f"{metric}.no_score"))
    return (*_FACTS, *metrics, *(_TEXTS if found.texts else ()))


def table(found: FinishedRun) -> Iterator[tuple[Cell, ...]]:
    """Every sample as the cells of a row; what is not known is None. Raises RunDirectoryError."""
    for row in sample_rows(found):
        yield tuple(_cells(found, row))


def _cells(found: FinishedRun, row: SampleRow) -> Iterator[Cell]:
    yield from (row.id, ", ".join(row.tags), row.draft)
    yield from (row.latency_s, row.input_tokens, row.output_tokens, row.failure)
    for metric in found.manifest.metrics:
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


def left_out(found: FinishedRun) -> Iterator[tuple[Cell, ...]]:
    """The scores that are missing, counted by metric and reason."""
    for one in found.left_out:
        yield one.metric, one.state, one.by, one.reason, one.samples


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
