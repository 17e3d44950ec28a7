"""Reads recorded answers one at a time, with their places: lines of JSON, or the rows
of a table or a JSON document."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ragstone.errors import GoldenSetError, SystemUnderTestError
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.formats.registry import FORMATS
from ragstone.golden.load import table_rows
from ragstone.golden.opened import open_cells
from ragstone.golden.rows import SourceFile

MAX_RECORD_BYTES = 10_000_000
_HEAD_BYTES = 4096

Record = tuple[Mapping[str, object], int, int, int]
"""What a record has, its first byte, its size in bytes, and its line, or the number of
its row, from 1."""

TABLES = frozenset(
    ending
    for file_format in FORMATS
    if "json" not in file_format.name
    for ending in file_format.endings
)
"""File endings of tables."""

CONTEXTS_NAMES = (*RECORDED["contexts"].strong, *SYSTEM_NAMES["contexts"])
"""Names of the column of the contexts, in normal form."""

OBJECTS = ("outputs", "output", "inputs", "input")
"""Columns whose objects may have the question, the answer and the contexts, in the
order of their precedence."""

_RECORD_NAMES = frozenset(
    (
        "id",
        "error",
        *SYSTEM_NAMES["answer"],
        *FIELDS["question"].strong,
        *FIELDS["question"].weak,
    )
)
"""Names of what a record has, and a document with lists of records or values has
not."""


def records(file: BinaryIO, name: str) -> Iterator[Record]:
    """The records of a file of JSON Lines, which messages call `name`. Raises
    SystemUnderTestError."""
    start = (
        len(codecs.BOM_UTF8)
        if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        else 0
    )
    file.seek(start)
    number = 0
    while line := file.readline(MAX_RECORD_BYTES + 1):
        number += 1
        if len(line) > MAX_RECORD_BYTES:
            raise _broken(
                name, number, f"a record is longer than {MAX_RECORD_BYTES:,} bytes"
            )
        if line.strip():
            yield _record(line, name, number), start, len(line), number
        start += len(line)


def _record(line: bytes, name: str, number: int) -> Mapping[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _broken(name, number, f"not valid JSON ({error})") from None
    if not isinstance(record, dict):
        raise _broken(
            name,
            number,
            f"expected an object with an answer, found {json.dumps(record)[:80]}",
        )
    try:
        return _with_lists(record, split_bars=False)
    except cells.CellError as error:
        raise _broken(name, number, str(error)) from None


def _broken(name: str, number: int, reason: str) -> SystemUnderTestError:
    return SystemUnderTestError(
        f"the recorded answers can't be used: {reason}.",
        where=f"{name}:{number}",
        hint='Expected JSON Lines such as {"id": "q1", "answer": "...", "contexts": ["..."]}, or one list of these.',
    )


def record_at(file: BinaryIO, start: int, size: int) -> Mapping[str, object] | None:
    """The record of `size` bytes at `start`, as it was read before; None if the file
    was changed meanwhile."""
    file.seek(start)
    try:
        record = json.loads(file.read(size))
        return (
            _with_lists(record, split_bars=False) if isinstance(record, dict) else None
        )
    except (ValueError, RecursionError):
        return None


# --- tables and documents
# ----------------------------------------------------------------------------------------


def is_table(file: BinaryIO, ending: str) -> bool:
    """Whether `file`, from its start, is a table, or one JSON document with lists of
    rows or values; rewinds it."""
    try:
        return ending.lower() in TABLES or _is_document(file)
    finally:
        file.seek(0)


def _is_document(file: BinaryIO) -> bool:
    """Whether `file` is one JSON value: a list, an object over several lines, or one
    whose lists may be of records."""
    head = file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    if not head.startswith(b"{"):
        return head.startswith(b"[")
    file.seek(0)
    line = file.readline(MAX_RECORD_BYTES).removeprefix(codecs.BOM_UTF8).strip()
    has_more = file.read(_HEAD_BYTES).strip() != b""
    if line == b"{":
        return has_more
    if has_more:
        return False
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if isinstance(document.get("sample"), dict):
        return False
    plain = {
        normal(name)
        for name, value in document.items()
        if not isinstance(value, dict | list)
    }
    return len(plain) < len(document) and not plain & _RECORD_NAMES


def table_records(source: SourceFile, file: BinaryIO) -> Iterator[Record]:
    """The rows of `source` as records, each written to `file` as a line of JSON, where
    its place is.

    Numbers are lines of the table, or of rows if it has no lines. Raises
    SystemUnderTestError.
    """
    start = last_line = 0
    try:
        for number, row in enumerate(table_rows(source), start=1):
            try:
                record = _row_record(row.values)
            except cells.CellError as error:
                raise source.error(f"{error}.", row.line or number) from None
            has_own_line = row.line is not None and row.line > last_line
            place = row.line if has_own_line and row.line is not None else number
            last_line = row.line or 0
            line = json.dumps(record, default=str).encode("ascii") + b"\n"
            if len(line) > MAX_RECORD_BYTES:
                raise source.error(
                    f"the row is larger than {MAX_RECORD_BYTES:,} bytes.", place
                )
            file.write(line)
            yield record, start, len(line), place
            start += len(line)
    except GoldenSetError as error:
        raise SystemUnderTestError(
            f"the recorded answers can't be used: {error.message}",
            where=error.where,
            hint=error.hint
            or "Expected records or a table with the columns id (or question), answer and contexts.",
        ) from None


def _row_record(row: Mapping[str, object]) -> Mapping[str, object]:
    """`row` without empty cells, with lists of contexts and the latency parsed from
    text."""
    record = _with_lists(
        {name: value for name, value in row.items() if value is not None},
        split_bars=True,
    )
    latency = record.get("latency_s")
    if isinstance(latency, str):
        with contextlib.suppress(ValueError):
            record["latency_s"] = float(latency)
    return record


def _with_lists(record: dict[str, object], *, split_bars: bool) -> dict[str, object]:
    """`record` with its cells opened, and the contexts, and their ids, that are written
    into a text as lists.

    Raises CellError.
    """
    record = open_cells(record)
    for name, value in record.items():
        column = normal(name)
        if isinstance(value, dict) and column in OBJECTS:
            record[name] = _with_lists(value, split_bars=split_bars)
        elif isinstance(value, str) and column in SYSTEM_NAMES["context_ids"]:
            record[name] = list(cells.listed(value, split_bars=True, split_commas=True))
        elif isinstance(value, str) and column in CONTEXTS_NAMES:
            try:
                passages = cells.passages(value, split_bars=split_bars)
            except cells.CellError as error:
                raise cells.CellError(f"column '{name}' {error}") from None
            is_one_text = not split_bars and passages == [value]
            record[name] = value if is_one_text else passages
    return record
