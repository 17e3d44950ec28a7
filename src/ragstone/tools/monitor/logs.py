"""Reads logs from where the last job stopped: JSON Lines that grow, are rotated or compressed, and other files whole.

A log is recognised by its first bytes, whatever its name is now: ``app.jsonl`` that became ``app.jsonl.1`` and then
``app.jsonl.2.gz`` is the same log. Broken lines are counted, never fatal; memory is bounded by one line.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragstone.errors import GoldenSetError, SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden.rows import SourceFile
from ragstone.system.json_records import MAX_RECORD_BYTES, TABLES
from ragstone.system.recorded import open_records
from ragstone.tools.monitor.interaction import Problem

MAX_BYTES = 20_000_000_000
"""Of a log, unpacked: more is a mistake, or a file made to fill the machine."""

MAX_DOCUMENT_BYTES = 200_000_000
"""Of a JSON document, which is read at once."""

_HEAD = 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Head:
    """The first `size` bytes of a log, by their hash."""

    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far a log was read: the byte after the last whole line, and the lines before it."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log: a record, or the problem with it. `after` is where the next one begins."""

    record: Mapping[str, Any] | None
    problem: Problem | None
    number: int
    after: Place


class Damaged(Exception):  # noqa: N818 - reported, not fatal
    """A file that can't be read any further."""


class Log:
    """An open log. `head` is what it begins with, and `rest` what is left for the next job, in bytes."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file can't be opened, and Damaged if it can't be unpacked."""
        self.path = path
        self.rest = 0
        self._raw = open_regular(path)
        packed = self._raw.read(2) == _GZIP
        self._raw.seek(0)
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if packed else self._raw
        try:
            self._start = self._file.read(_HEAD)
        except (OSError, EOFError, zlib.error) as error:
            self._raw.close()
            raise Damaged(f"can't be unpacked ({error})") from None
        self.head = self.head_of(len(self._start))

    def head_of(self, size: int) -> Head:
        return Head(hashlib.blake2b(self._start[:size], digest_size=16).digest(), min(size, len(self._start)))

    def document(self) -> Mapping[str, Any] | None:
        """The one JSON object that is the file, on several lines; None if it is none."""
        if self._start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return None
        try:
            self._file.seek(0)
            body = self._file.read(MAX_DOCUMENT_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            return None
        return _record(body)[0] if len(body) <= MAX_DOCUMENT_BYTES else None

    @property
    def is_list(self) -> bool:
        """Whether it is one JSON list, which is read whole."""
        return self._start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["

    def lines(self, place: Place) -> Iterator[Line]:
        """The lines after `place`. Raises Damaged where the file can't be read any further."""
        try:
            if self._is_shorter_than(place.offset):
                place = Place()  # it was written anew; what is known is known by its key
            offset, number = place.offset, place.line
            self._file.seek(offset)
            while line := self._file.readline(MAX_RECORD_BYTES + 1):
                size = len(line)
                too_long = size > MAX_RECORD_BYTES
                while too_long and not line.endswith(b"\n"):
                    line = self._file.readline(MAX_RECORD_BYTES)
                    if not line:
                        break
                    size += len(line)
                if not line.endswith(b"\n") and (too_long or _record(line)[0] is None):
                    self.rest = size  # still being written
                    return
                offset, number = offset + size, number + 1
                if offset > MAX_BYTES:
                    raise Damaged(f"is larger than {MAX_BYTES:,} bytes, unpacked")
                if too_long:
                    yield Line(None, Problem.TOO_LONG, number, Place(offset, number))
                elif line.strip():
                    record, problem = _record(line)
                    yield Line(record, problem, number, Place(offset, number))
        except (OSError, EOFError, zlib.error) as error:
            raise Damaged(f"is cut short or damaged after line {number:,} ({type(error).__name__})") from None

    def _is_shorter_than(self, offset: int) -> bool:
        if self._file is self._raw:
            return os.fstat(self._raw.fileno()).st_size < offset
        return self._file.seek(offset) < offset

    def close(self) -> None:
        self._file.close()
        self._raw.close()


def whole_records(path: Path) -> Iterator[Line]:
    """The records of a JSON list, CSV, TSV or Parquet file. Raises OSError, and Damaged at a broken record."""
    file, found = open_records(SourceFile(path, str(path)))
    with file:
        try:
            for record, _, _, number in found:
                yield Line(record, None, number, Place())
        except (SystemUnderTestError, GoldenSetError) as error:
            raise Damaged(f"can't be read: {error.where}: {error.message}") from None


def is_table(path: Path) -> bool:
    return path.suffix.lower() in TABLES


def _record(line: bytes) -> tuple[Mapping[str, Any] | None, Problem | None]:
    try:  # NaN and infinity are no value
        found = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None, Problem.NOT_JSON
    return (found, None) if isinstance(found, dict) else (None, Problem.NOT_OBJECT)
