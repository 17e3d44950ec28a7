"""Reads CSV and TSV: a header line, and cells that may contain line breaks inside
quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

from ragstone.formatting import counted
from ragstone.golden.aliases import FIELDS, normalise_name
from ragstone.golden.rows import MAX_COLUMNS, MAX_LINE_BYTES, Row, SourceFile

Quoting = Literal[0, 3]
"""csv.QUOTE_MINIMAL or csv.QUOTE_NONE."""

_DELIMITERS = (",", ";", "\t")
_QUESTION_NAMES = frozenset(FIELDS["question"].strong)

_MAX_TITLE_ROWS = 4
"""Maximum number of rows above the header."""


class Record(NamedTuple):
    """A row of cells that is not empty."""

    line: int
    """The line that the row starts on, from 1."""
    cells: list[str]


def read_csv(source: SourceFile) -> Iterator[Row]:
    """Yield the rows of a file separated by commas, semicolons or tabs. Raises
    GoldenSetError."""
    # The delimiter is the one whose header names the question, or else the one with the
    # longest header.
    ranks = {}
    for delimiter in _DELIMITERS:
        try:
            header = find_header(_records(source, delimiter, csv.QUOTE_MINIMAL))
            has_question = _names_question(header.cells)
            ranks[delimiter] = (has_question, len(header.cells))
        except csv.Error:
            ranks[delimiter] = (False, 0)
    best_delimiter = max(_DELIMITERS, key=ranks.__getitem__)
    yield from _read_rows(source, best_delimiter, csv.QUOTE_MINIMAL)


def read_tsv(source: SourceFile) -> Iterator[Row]:
    """Yield the rows of a file separated by tabs. Quotes are ordinary characters if they
    don't pair up. Raises GoldenSetError."""
    try:
        for _ in _records(source, "\t", csv.QUOTE_MINIMAL):
            pass
        quoting: Quoting = csv.QUOTE_MINIMAL
    except csv.Error:
        quoting = csv.QUOTE_NONE
    yield from _read_rows(source, "\t", quoting)


def _read_rows(source: SourceFile, delimiter: str, quoting: Quoting) -> Iterator[Row]:
    line = 1
    try:
        header = find_header(_records(source, delimiter, quoting))
        names = header_names(source, header)
        for line, cells in _records(source, delimiter, quoting):
            values = [cell if cell.strip() else None for cell in cells]
            if line <= header.line or not any(values):
                continue
            has_cells_without_name = any(values[len(names) :])
            if has_cells_without_name:
                cell_count = counted(len(cells), "cell")
                column_count = counted(len(names), "column")
                raise source.error(
                    f"{cell_count}, but the header has {column_count}.",
                    line,
                    hint="Put a cell that contains the delimiter in double quotes. Delete a title above the header.",
                )
            yield Row(dict(zip(names, values, strict=False)), line)
    except csv.Error as error:
        raise source.error(
            f"not valid CSV in the record after line {line}: {error}.",
            line,
            hint="Put a cell with quotes, delimiters or line breaks in double quotes, and double its quotes.",
        ) from None


def find_header(records: Iterable[Record]) -> Record:
    """Return the row with the names of the columns; rows above it are a title.

    Of the first rows, it is the first that names the question, or else the first with
    more than one filled cell, or else the first.
    """
    first_rows = list(islice(records, _MAX_TITLE_ROWS + 1)) or [Record(1, [])]
    wide_rows = [row for row in first_rows if any(map(str.strip, row.cells[1:]))]
    # The header of a table with one column is its first row.
    candidates = (*wide_rows, first_rows[0])
    with_question = [row for row in candidates if _names_question(row.cells)]
    best_first = with_question or wide_rows or first_rows
    return best_first[0]


def _names_question(header: list[str]) -> bool:
    return not _QUESTION_NAMES.isdisjoint(map(normalise_name, header))


def header_names(source: SourceFile, header: Record) -> list[str]:
    """Return the names of the columns. Raises GoldenSetError if there are too many, or
    two with the same name."""
    names = [name.strip() for name in header.cells]
    count = len(names)
    if count > MAX_COLUMNS:
        raise source.error(
            f"{count:,} columns; at most {MAX_COLUMNS:,} are allowed.", header.line
        )
    for name in names:
        if name and names.count(name) > 1:
            raise source.error(f"duplicate column '{name}' in the header.", header.line)
    return names


def _records(source: SourceFile, delimiter: str, quoting: Quoting) -> Iterator[Record]:
    # The csv module's own limit, 131,072 characters in a cell, is too low. It is set for
    # the whole process.
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (source.decode(raw, number) for number, raw in source.lines())
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    for cells in reader:
        if cells:
            yield Record(line, cells)
        line = reader.line_num + 1
