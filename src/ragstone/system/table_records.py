"""Recorded answers in CSV, TSV or Parquet, one row per answer, rewritten as JSON Lines for random access."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ragstone.errors import GoldenSetError, SystemUnderTestError
from ragstone.golden.formats import delimited, parquet
from ragstone.golden.rows import SourceFile
from ragstone.system import worker
from ragstone.system.json_records import MAX_RECORD_BYTES, Record

_READERS = {".csv": delimited.read_csv, ".tsv": delimited.read_tsv, ".parquet": parquet.read_rows}
TABLES = frozenset(_READERS)
"""File endings of tables."""


def table_records(source: SourceFile, file: BinaryIO) -> Iterator[Record]:
    """The rows of `source` as records, each written to `file` as a line of JSON; see `json_records.records`.

    Places are lines of the table, or row numbers if it has no lines. Raises SystemUnderTestError.
    """
    start = 0
    try:
        for number, row in enumerate(_READERS[source.path.suffix.lower()](source), start=1):
            record = _record(row.values)
            line = json.dumps(record, default=str).encode("ascii") + b"\n"
            place = row.line or number
            if len(line) > MAX_RECORD_BYTES:
                raise source.error(f"the row is larger than {MAX_RECORD_BYTES:,} bytes.", place)
            file.write(line)
            yield record, start, len(line), place
            start += len(line)
    except GoldenSetError as error:
        raise SystemUnderTestError(
            f"the recorded answers can't be used: {error.message}",
            where=error.where,
            hint=error.hint or "Expected a table with the columns id (or question), answer and contexts.",
        ) from None


def _record(cells: Mapping[str, object]) -> Mapping[str, object]:
    """`cells` without empty ones, with lists of contexts and the latency parsed from text."""
    record = {name: value for name, value in cells.items() if value is not None}
    for name in worker.CONTEXTS_NAMES:
        value = record.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            with contextlib.suppress(ValueError, RecursionError):
                record[name] = json.loads(value)
    latency = record.get("latency_s")
    if isinstance(latency, str):
        with contextlib.suppress(ValueError):
            record["latency_s"] = float(latency)
    return record
