"""Scores from other evaluators: JSONL or CSV with `id, metric, value[, group]`, and plain mappings."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from ragstone.errors import ConfigError
from ragstone.files import open_regular
from ragstone.formatting import counted
from ragstone.metrics.score import Failed
from ragstone.run.scores import MetricScores, RunScores, SampleFacts

MAX_LINE_CHARS = 1_000_000
_REQUIRED = ("id", "metric", "value")


def read_score_file(path: str | Path) -> RunScores:
    """The scores in `path`, one `id, metric, value[, group]` per line: JSON Lines, or CSV or TSV with a header.

    The format is detected from the first character. Values are in [0, 1]; an empty or null value is a failed score,
    which counts against coverage. Raises ConfigError with the line of the first error.
    """
    scores = _collect(read_rows(Path(path), required=_REQUIRED, expected=_EXPECTED), str(path))
    if not scores.samples:
        raise ConfigError("contains no scores.", where=str(path), hint=_EXPECTED)
    return scores


def read_rows(path: Path, *, required: Sequence[str], expected: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a JSON Lines, CSV or TSV file, each with its place (``scores.csv:12``).

    Every row has the fields `required`; cells of a table are strings. `expected` tells the user what a row looks like.
    Raises ConfigError.
    """
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as stream:
            yield from _rows(stream, str(path), _Shape(tuple(required), expected))
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}.", where=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("not a UTF-8 text file.", where=str(path), hint=expected) from None


@dataclass(frozen=True, slots=True)
class _Shape:
    """The required fields of a row, and their description for the user."""

    required: tuple[str, ...]
    expected: str


def scores_from_mapping(scores: Mapping[str, Mapping[str, float | None]], *, label: str = "scores") -> RunScores:
    """The run that ``{metric: {sample_id: value}}`` describes.

    Values are in [0, 1]; None is a failed score, which counts against coverage; where a metric does not apply to a
    sample, the sample is left out. `label` names the run in messages. Raises ConfigError for anything else.
    """
    if not isinstance(scores, Mapping):
        raise ConfigError(
            f"{label}: scores are {{metric: {{sample id: value}}}}, found {type(scores).__name__}.", hint=None
        )
    collected = _Collected(label)
    for metric, values in scores.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{label}: '{metric}' must map sample ids to values, found {type(values).__name__}.")
        collected.declare(_text(metric, "metric", label))
        for sample_id, value in values.items():
            where = f"{label}: metric '{metric}', sample '{sample_id}'"
            collected.add(str(sample_id), str(metric), _number(value, where), None, where)
    return collected.scores()


_EXPECTED = 'Expected are lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header.'


class _Collected:
    """Scores as they come in, each sample and metric once."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._values: dict[str, dict[str, float]] = {}
        self._failed: dict[str, dict[str, Failed]] = {}
        self._groups: dict[str, str | None] = {}

    def declare(self, metric: str) -> None:
        self._values.setdefault(metric, {})
        self._failed.setdefault(metric, {})

    def add(self, sample_id: str, metric: str, value: float | None, group: str | None, where: str) -> None:
        self.declare(metric)
        if sample_id in self._values[metric] or sample_id in self._failed[metric]:
            raise ConfigError(f"duplicate value of '{metric}' for sample '{sample_id}'.", where=where)
        known = self._groups.setdefault(sample_id, group)
        if group is not None and known is None:
            self._groups[sample_id] = group
        elif group is not None and known != group:
            raise ConfigError(f"sample '{sample_id}' is in group '{group}' here, but was in '{known}'.", where=where)
        if value is None:
            self._failed[metric][sample_id] = Failed("judge", "no value was given")
        else:
            self._values[metric][sample_id] = value

    def scores(self) -> RunScores:
        return RunScores(
            label=self._label,
            metrics={
                metric: MetricScores(values, failed=self._failed[metric]) for metric, values in self._values.items()
            },
            samples={sample_id: SampleFacts(group=group) for sample_id, group in self._groups.items()},
        )


def _collect(rows: Iterator[tuple[str, Mapping[str, object]]], label: str) -> RunScores:
    collected = _Collected(label)
    for where, row in rows:
        group = row.get("group")
        collected.add(
            _text(row["id"], "id", where),
            _text(row["metric"], "metric", where),
            _number(row["value"], where),
            None if group in (None, "") else _text(group, "group", where),
            where,
        )
    return collected.scores()


def _rows(stream: IO[str], label: str, shape: _Shape) -> Iterator[tuple[str, Mapping[str, object]]]:
    number, first = 0, ""
    while not first.strip():
        number += 1
        first = stream.readline(MAX_LINE_CHARS)
        if not first:
            return
    if first.lstrip().startswith(("{", "[")):
        yield from _json_rows(first, number, stream, label, shape)
    else:
        yield from _table_rows(first, number, stream, label, shape)


def _json_rows(
    first: str, number: int, stream: IO[str], label: str, shape: _Shape
) -> Iterator[tuple[str, Mapping[str, object]]]:
    line = first
    while line:
        where = f"{label}:{number}"
        if len(line) >= MAX_LINE_CHARS:
            raise ConfigError("the line is too long for a score.", where=where, hint=shape.expected)
        if line.strip():
            yield where, _json_row(line, where, shape)
        number += 1
        line = stream.readline(MAX_LINE_CHARS)


def _json_row(line: str, where: str, shape: _Shape) -> Mapping[str, object]:
    def refuse(name: str) -> NoReturn:
        raise ConfigError(f"a score must be a number in [0, 1], found {name}.", where=where, hint=_NO_VALUE)

    try:
        row = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        message = error.msg if isinstance(error, json.JSONDecodeError) else "not valid"
        raise ConfigError(f"not a JSON object: {message}.", where=where, hint=shape.expected) from None
    if not isinstance(row, dict):
        raise ConfigError(f"a line is a JSON object, found {type(row).__name__}.", where=where, hint=shape.expected)
    for name in shape.required:
        if name not in row:
            raise ConfigError(f"'{name}' is missing.", where=where, hint=shape.expected)
    return row


def _table_rows(
    first: str, number: int, stream: IO[str], label: str, shape: _Shape
) -> Iterator[tuple[str, Mapping[str, object]]]:
    delimiter = max("\t;,", key=first.count)
    header = [name.strip().lower() for name in next(csv.reader([first], delimiter=delimiter))]
    for name in shape.required:
        if name not in header:
            raise ConfigError(
                f"the header has no column '{name}', found: {', '.join(header)[:200]}.",
                where=f"{label}:{number}",
                hint=shape.expected,
            )
    reader = csv.reader(stream, delimiter=delimiter)
    while True:
        line = number + reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ConfigError(f"not valid CSV: {error}.", where=f"{label}:{line}") from None
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise ConfigError(
                f"{counted(len(cells), 'cell')} where the header has {counted(len(header), 'column')}.",
                where=f"{label}:{line}",
            )
        yield f"{label}:{line}", dict(zip(header, cells, strict=True))


_NO_VALUE = (
    "Leave the row out if the metric does not apply. Use null, or an empty cell, if scoring failed: that counts "
    "against coverage."
)


def _number(value: object, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return float(value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"a score must be a number in [0, 1], found {str(value)[:80]!r}.", where=where, hint=_NO_VALUE
        ) from None
    if not math.isfinite(number):
        raise ConfigError(f"a score must be a number in [0, 1], found {number}.", where=where, hint=_NO_VALUE)
    if not 0.0 <= number <= 1.0:
        raise ConfigError(
            f"a score must be in [0, 1], found {number:g}.",
            where=where,
            hint="Divide by the maximum value of the metric.",
        )
    return number


def _text(value: object, field: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ConfigError(f"'{field}' must be a non-empty string, found {str(value)[:80]!r}.", where=where)
    return str(value)
