"""Reads records from a JSON Lines file or a JSON list one at a time, with their places in the file."""

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
_WINDOW = 1 << 18
_BLANK = " \t\r\n"

Record = tuple[Mapping[str, object], int, int, int]


def records(file: BinaryIO, shown: str) -> Iterator[Record]:
    """Each record with its first byte, its size in bytes, and its place (line, or number in a list), from 1."""
    head = file.read(3)
    start = 3 if head == b"\xef\xbb\xbf" else 0
    file.seek(start)
    first = file.read(4096).lstrip()[:1]
    file.seek(start)
    yield from _list_items(file, start, shown) if first == b"[" else _lines(file, start, shown)


def record_at(file: BinaryIO, start: int, size: int) -> Mapping[str, object] | None:
    """The record of `size` bytes at `start`, as `records` found it; None if the file was changed meanwhile."""
    file.seek(start)
    try:
        value = json.loads(file.read(size))
        return _with_lists(value, split_bars=False) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _lines(file: BinaryIO, start: int, shown: str) -> Iterator[Record]:
    number = 0
    while line := file.readline(MAX_RECORD_BYTES + 1):
        number += 1
        if len(line) > MAX_RECORD_BYTES:
            raise _broken(shown, number, f"a record is longer than {MAX_RECORD_BYTES:,} bytes")
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _broken(shown, number, f"not valid JSON ({error})") from None
            yield _mapping(record, shown, number), start, len(line), number
        start += len(line)


def _list_items(file: BinaryIO, start: int, shown: str) -> Iterator[Record]:
    window = _Window(file, start)
    number = 0
    _expect(window, "[", shown, number)
    while window.peek() != "]":
        number += 1
        if number > 1:
            _expect(window, ",", shown, number)
            window.peek()
        offset = window.offset
        try:
            item, size = window.decode()
        except (ValueError, RecursionError) as error:
            raise _broken(shown, number, f"item {number} is not valid JSON ({error})") from None
        yield _mapping(item, shown, number), offset, size, number


def _expect(window: _Window, mark: str, shown: str, number: int) -> None:
    found = window.peek()
    if found != mark:
        what = f"'{mark}' expected after item {number - 1}, found {found!r}" if found else "the list has no end"
        raise _broken(shown, number, what)
    window.advance(1)


class _Window:
    """A part of the file as text. It grows while an item is incomplete and drops what was read."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self.offset = start  # of the next character, in bytes

    def peek(self) -> str:
        """The next non-space character, "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self.advance(1)
            if not self._more():
                return ""

    def advance(self, characters: int) -> int:
        passed = self._text[self._at : self._at + characters]
        size = len(passed) if passed.isascii() else len(passed.encode("utf-8", "surrogateescape"))
        self._at += characters
        self.offset += size
        return size

    def decode(self) -> tuple[object, int]:
        """The item that begins here, and its size in bytes. Raises ValueError."""
        while True:
            try:
                item, end = self._json.raw_decode(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at > MAX_RECORD_BYTES or not self._more():
                    raise
                continue
            size = self.advance(end - self._at)
            if size > MAX_RECORD_BYTES:
                raise ValueError(f"longer than {MAX_RECORD_BYTES:,} bytes")
            return item, size

    def _more(self) -> bool:
        rest = self._text[self._at :]
        chunk = self._file.read(max(_WINDOW, len(rest)))
        self._text = rest + self._decoder.decode(chunk, final=not chunk)
        self._at = 0
        return bool(chunk)


def _mapping(value: object, shown: str, number: int) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _broken(shown, number, f"expected an object with an answer, found {json.dumps(value)[:80]}")
    try:
        return _with_lists(value, split_bars=False)
    except cells.CellError as error:
        raise _broken(shown, number, str(error)) from None


def _broken(shown: str, number: int, what: str) -> SystemUnderTestError:
    return SystemUnderTestError(
        f"the recorded answers can't be used: {what}.",
        where=f"{shown}:{number}",
        hint='Expected JSON Lines such as {"id": "q1", "answer": "...", "contexts": ["..."]}, or one list of these.',
    )


TABLES = frozenset(ending for one in FORMATS for ending in one.endings if not one.name.startswith("json"))
"""File endings of tables."""

_OF_RECORDS = frozenset(("id", "error", *SYSTEM_NAMES["answer"], *FIELDS["question"].strong, *FIELDS["question"].weak))
"""Names of what a record has, and a document with lists of records or values has not."""

CONTEXTS_NAMES = (*RECORDED["contexts"].strong, *SYSTEM_NAMES["contexts"])
"""Names of the column of the contexts, in normal form."""


OBJECTS = ("outputs", "output", "inputs", "input")
"""Columns whose objects may have the question, the answer and the contexts, in the order of their precedence."""


def is_table(file: BinaryIO, ending: str) -> bool:
    """Whether `file`, from its start, is a table, or one JSON document with lists of rows or values; rewinds it."""
    if ending.lower() in TABLES:
        return True
    if not file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        file.seek(0)
        return False
    file.seek(0)
    first, more = file.readline(MAX_RECORD_BYTES).removeprefix(codecs.BOM_UTF8).strip(), file.read(4096).strip()
    file.seek(0)
    if more or first == b"{":
        return bool(more) and first == b"{"
    try:
        only = json.loads(first)
    except (ValueError, RecursionError):
        return False
    plain = {normal(name) for name, value in only.items() if not isinstance(value, dict | list)}
    return len(plain) < len(only) and not plain & _OF_RECORDS and not isinstance(only.get("sample"), dict)


def table_records(source: SourceFile, file: BinaryIO) -> Iterator[Record]:
    """The rows of `source` as records, each written to `file` as a line of JSON; see `json_records.records`.

    Places are lines of the table, or row numbers if it has no lines. Raises SystemUnderTestError.
    """
    start = before = 0
    try:
        for number, row in enumerate(table_rows(source), start=1):
            try:
                record = _record(row.values)
            except cells.CellError as error:
                raise source.error(f"{error}.", row.line or number) from None
            line = json.dumps(record, default=str).encode("ascii") + b"\n"
            place = row.line if row.line is not None and row.line > before else number
            before = row.line or 0
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


def _record(row: Mapping[str, object]) -> Mapping[str, object]:
    """`row` without empty cells, with lists of contexts and the latency parsed from text."""
    record = _with_lists({name: value for name, value in row.items() if value is not None}, split_bars=True)
    latency = record.get("latency_s")
    if isinstance(latency, str):
        with contextlib.suppress(ValueError):
            record["latency_s"] = float(latency)
    return record


def _with_lists(record: dict[str, object], *, split_bars: bool) -> dict[str, object]:
    """`record` with its cells opened, and the contexts, and their ids, that are written into a text as lists.

    Raises CellError.
    """
    record = open_cells(record)
    for name, value in record.items():
        if isinstance(value, str) and normal(name) in SYSTEM_NAMES["context_ids"]:
            record[name] = list(cells.listed(value, split_bars=True, split_commas=True))
        elif isinstance(value, str) and normal(name) in CONTEXTS_NAMES:
            try:
                found = cells.passages(value, split_bars=split_bars)
            except cells.CellError as error:
                raise cells.CellError(f"column '{name}' {error}") from None
            record[name] = found if split_bars or found != [value] else value
        elif isinstance(value, dict) and normal(name) in OBJECTS:
            record[name] = _with_lists(value, split_bars=split_bars)
    return record
