"""CSV and TSV: a header line, perhaps below lines of a title, and cells that can
contain line breaks inside quotes.

Text is UTF-8, or Windows-1252, which Excel writes as "CSV" in Western Europe and
America.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal, TypeVar

from ragstone.formatting import counted
from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.rows import MAX_COLUMNS, MAX_LINE_BYTES, Row, SourceFile

Quoting = Literal[0, 3]
Cells = TypeVar("Cells", bound=Sequence[object])
QUESTION_NAMES = frozenset(FIELDS["question"].strong)
MAX_TITLE_ROWS = 4
WINDOWS = "cp1252"
_DELIMITERS = (",", ";", "\t")


def encoding_of(source: SourceFile) -> str:
    """``utf-8``, or ``cp1252`` for a file that can only be that. Raises GoldenSetError
    if it can't be read.

    A file with both valid and broken UTF-8 is damaged UTF-8, so it is not taken for
    Windows-1252: that would be read without an error, as other text.
    """
    valid = broken = False
    for _, raw in source.lines():
        if raw.isascii():
            continue
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-8"  # refused with a better message where it is decoded
        text = raw.decode("utf-8", "surrogateescape")
        broken = broken or any("\udc80" <= character <= "\udcff" for character in text)
        valid = valid or any(
            character > "\x7f" and not "\udc80" <= character <= "\udcff"
            for character in text
        )
        if broken and (valid or not _is_windows(raw)):
            return "utf-8"
    return WINDOWS if broken else "utf-8"


def _is_windows(raw: bytes) -> bool:
    try:
        raw.decode(WINDOWS)
    except UnicodeDecodeError:
        return False
    return True


def read_csv(source: SourceFile) -> Iterator[Row]:
    """The rows of a file separated by commas, semicolons or tabs, whichever its header
    uses. Raises GoldenSetError."""
    yield from _read(source, _delimiter(source), csv.QUOTE_MINIMAL)


def read_tsv(source: SourceFile) -> Iterator[Row]:
    """The rows of a file separated by tabs, with quotes where they pair up and as plain
    characters where not."""
    try:
        for _ in _records(source, "\t", csv.QUOTE_MINIMAL):
            pass
        quoting: Quoting = csv.QUOTE_MINIMAL
    except csv.Error:
        quoting = csv.QUOTE_NONE
    yield from _read(source, "\t", quoting)


def _read(source: SourceFile, delimiter: str, quoting: Quoting) -> Iterator[Row]:
    line = 1
    try:
        records = _records(source, delimiter, quoting)
        first_records = list(islice(records, MAX_TITLE_ROWS + 1))
        header = header_row(first_records) or next(iter(first_records), (1, []))
        names = header_names(source, header[1], header[0])
        for line, cells in chain(first_records, records):
            if line > header[0] and any(cell.strip() for cell in cells):
                yield Row(_row(source, names, cells, line), line)
    except csv.Error as error:
        raise source.error(
            f"not valid CSV in the record after line {line}: {error}.",
            line,
            hint="Put a cell with quotes, delimiters or line breaks in double quotes, and double its quotes.",
        ) from None


def header_row(rows: Iterable[tuple[int, Cells]]) -> tuple[int, Cells] | None:
    """The row, with its line, that names the question among other columns: rows above
    it are a title."""
    for line, cells in rows:
        names = [normal(str(cell)) for cell in cells if cell is not None]
        if sum(map(bool, names)) > 1 and set(names) & QUESTION_NAMES:
            return line, cells
    return None


def header_names(source: SourceFile, header: list[str], line: int) -> list[str]:
    """The names of the columns. Raises GoldenSetError if there are too many, or two
    with the same name."""
    names = [name.strip() for name in header]
    doubled = [name for name, times in Counter(names).items() if times > 1 and name]
    if doubled:
        raise source.error(f"duplicate column '{doubled[0]}' in the header.", line)
    if len(names) > MAX_COLUMNS:
        raise source.error(f"{len(names):,} columns; at most {MAX_COLUMNS:,}.", line)
    return names


def _row(
    source: SourceFile, names: list[str], cells: list[str], line: int
) -> dict[str, object]:
    if len(cells) > len(names) and any(cell.strip() for cell in cells[len(names) :]):
        raise source.error(
            f"{counted(len(cells), 'cell')}, but the header has {counted(len(names), 'column')}.",
            line,
            hint="Put a cell that contains the delimiter in double quotes. Delete a title above the header.",
        )
    return {
        name: cell if cell.strip() else None
        for name, cell in zip(names, cells, strict=False)
    }


def _records(
    source: SourceFile, delimiter: str, quoting: Quoting
) -> Iterator[tuple[int, list[str]]]:
    _allow_wide_cells()
    reader = csv.reader(
        _lines(source), delimiter=delimiter, quoting=quoting, strict=True
    )
    line = 1
    for cells in reader:
        if cells:
            yield line, cells
        line = reader.line_num + 1


def _lines(source: SourceFile) -> Iterator[str]:
    encoding = source.encoding or "utf-8"
    for number, raw in source.lines():
        yield (
            source.decode(raw, number) if encoding == "utf-8" else raw.decode(encoding)
        )


def _delimiter(source: SourceFile) -> str:
    """The delimiter that makes a header which names the question, or else the longest
    first line; a comma for ties."""

    def rank(delimiter: str) -> tuple[bool, int]:
        try:
            records = list(
                islice(
                    _records(source, delimiter, csv.QUOTE_MINIMAL), MAX_TITLE_ROWS + 1
                )
            )
        except csv.Error:
            return False, 0
        return header_row(records) is not None, len(records[0][1]) if records else 0

    return max(_DELIMITERS, key=rank)


def _allow_wide_cells() -> None:
    """Lift the csv module's limit of 131,072 characters a cell, which is one setting
    for the whole process."""
    if csv.field_size_limit() < MAX_LINE_BYTES:
        csv.field_size_limit(MAX_LINE_BYTES)
