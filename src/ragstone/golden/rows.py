"""Rows, as returned by every format, the lines that they are on, and the limits shared
by all formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from ragstone.errors import GoldenSetError, disk_errors
from ragstone.files import open_regular

MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
"""Maximum size of a file in any format."""

MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Maximum size of a JSON, YAML or Parquet file, which is read into memory as a
whole."""

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Maximum length of a line in a JSON Lines file, and of a cell in a CSV file."""

MAX_DEPTH = 64
"""Maximum nesting depth of objects and lists."""

MAX_COLUMNS = 2_000
"""Maximum number of different columns in one file."""


ByField = Mapping[str, str]
"""The dotted path of the column that each field is read from."""

Values = Mapping[str, object]
"""The values of a row, by column."""


class Row(Struct, frozen=True):
    """One row of a file."""

    values: Values
    line: int | None = None
    """The line that the row starts on, from 1; None if the format has no lines."""
    turn_label: str = ""
    """What messages call the row if it is a turn of a conversation, else empty."""


class Table(Struct, frozen=True):
    """The rows of a file, or of a list in its document."""

    path: str
    """The dotted path of the list that holds the rows, "" for the document itself."""
    rows: Iterable[Row] = ()
    """Can be iterated again and again."""
    notes: tuple[str, ...] = ()
    """Sentences on what is left out."""

    def column(self, name: str) -> str:
        """Return the path of a column from the top of the document."""
        return f"{self.path}.{name}" if self.path else name


class FileRows(Struct, frozen=True):
    """The rows of a file, read from its start whenever they are iterated."""

    read: Callable[[], Iterator[Row]]

    def __iter__(self) -> Iterator[Row]:
        return self.read()


class SourceFile(Struct, frozen=True):
    """A file to read."""

    path: Path
    name: str
    """What messages and origins call the file."""
    within: Path | None = None
    """The folder that must contain the file; None if it may be anywhere."""
    max_bytes: int = MAX_FILE_BYTES

    def location(self, line: int | None) -> str:
        """Return the place of `line` as messages name it: ``golden.csv:12``."""
        if line is None:
            return self.name
        return f"{self.name}:{line}"

    def error(
        self, message: str, line: int | None = None, *, hint: str | None = None
    ) -> GoldenSetError:
        """Return a GoldenSetError at `line` of this file."""
        return GoldenSetError(message, where=self.location(line), hint=hint)

    def open(self) -> BinaryIO:
        """Open the file for reading from the start. Raises OSError."""
        return open_regular(self.path, within=self.within, limit=self.max_bytes)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line with its number, from 1. Raises GoldenSetError if the file can't
        be read, or a line is too long."""
        with self._disk_errors(), self.open() as stream:
            number = 0
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise self.error(
                        f"the line is longer than {MAX_LINE_BYTES:,} bytes.", number
                    )
                yield number, raw

    def open_document(self) -> BinaryIO:
        """Open a file that will be read into memory as a whole. Raises GoldenSetError if
        it can't be opened or is too large."""
        with self._disk_errors():
            stream = self.open()
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_DOCUMENT_BYTES:
            stream.close()
            size_mb = size / 1e6
            max_mb = MAX_DOCUMENT_BYTES / 1e6
            raise self.error(
                f"{size_mb:,.0f} MB is too large for one document; at most {max_mb:,.0f} MB are allowed.",
                hint="Write it as JSON Lines (one object per line), which is read line by line.",
            )
        return stream

    def read_bytes(self) -> bytes:
        """Return the whole file. Raises GoldenSetError if it can't be read or is too
        large."""
        with self._disk_errors(), self.open_document() as stream:
            return stream.read(MAX_DOCUMENT_BYTES)

    def _disk_errors(self) -> AbstractContextManager[None]:
        return disk_errors(self.name, kind=GoldenSetError)

    def decode(self, raw: bytes, first_line: int = 1) -> str:
        """Return `raw`, which begins on `first_line`, as text without a byte-order mark.
        Raises GoldenSetError if it is not UTF-8."""
        if first_line == 1:
            if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise self.error(
                    "is UTF-16 text, expected UTF-8.", hint="Save the file as UTF-8."
                )
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first_line + raw.count(b"\n", 0, error.start)
            byte = raw[error.start]
            raise self.error(
                f"byte 0x{byte:02x} is not valid UTF-8.",
                line,
                hint="Save the file as UTF-8.",
            ) from None


class LocatedDict(dict[str, Any]):
    """An object of a document, with the line that it begins on."""

    __slots__ = ("line",)

    def __init__(self, fields: Mapping[str, Any], line: int) -> None:
        super().__init__(fields)
        self.line = line


def line_of(value: object) -> int | None:
    """Return the line that `value` begins on, None if it isn't known."""
    return value.line if isinstance(value, LocatedDict) else None


def first_line_of(error: Exception) -> str:
    """Return the first line of an error's message, shortened; its type if it has no
    message."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
