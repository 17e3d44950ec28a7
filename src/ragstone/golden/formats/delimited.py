"""CSV and TSV: a header line, and cells that can contain line breaks inside quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

from ragstone.formatting import counted
from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.rows import MAX_COLUMNS, MAX_LINE_BYTES, Row, SourceFile

Quoting = Literal[0, 3]
_DELIMITERS = (",", ";", "\t")
_MAX_TITLE_ROWS = 4
_QUESTION_NAMES = frozenset(FIELDS["question"].strong)


def read_csv(source: SourceFile) -> Iterator[Row]:
    """The rows of a file separated by commas, semicolons or tabs: what makes the
    longest header. Raises GoldenSetError."""
    ranks = {}
    for delimiter in _DELIMITERS:
        # Whether the header names the question, and how many columns it has.
        try:
            _, header = find_header(_records(source, delimiter, csv.QUOTE_MINIMAL))
            has_question = _names_question(header)
            ranks[delimiter] = (has_question, len(header))
        except csv.Error:
            ranks[delimiter] = (False, 0)
    best_delimiter = max(_DELIMITERS, key=ranks.__getitem__)
    yield from _read(source, best_delimiter, csv.QUOTE_MINIMAL)


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
        header_line, header = find_header(_records(source, delimiter, quoting))
        names = header_names(source, header, header_line)
        for line, cells in _records(source, delimiter, quoting):
            filled = [cell if cell.strip() else None for cell in cells]
            if line <= header_line or not any(filled):
                continue
            if any(filled[len(names) :]):
                cell_count = counted(len(cells), "cell")
                column_count = counted(len(names), "column")
                raise source.error(
                    f"{cell_count}, but the header has {column_count}.",
                    line,
                    hint="Put a cell that contains the delimiter in double quotes. Delete a title above the header.",
                )
            values = dict(zip(names, filled, strict=False))
            yield Row(values, line)
    except csv.Error as error:
        raise source.error(
            f"not valid CSV in the record after line {line}: {error}.",
            line,
            hint="Put a cell with quotes, delimiters or line breaks in double quotes, and double its quotes.",
        ) from None


def find_header(rows: Iterable[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """The row with the names of the columns: of the first ones, what names the
    question, or else has a cell behind the first. Those above it are a title."""
    first_rows = list(islice(rows, _MAX_TITLE_ROWS + 1)) or [(1, [])]
    wide = [row for row in first_rows if any(map(str.strip, row[1][1:]))]
    candidates = (*wide, first_rows[0])
    asking = [row for row in candidates if _names_question(row[1])]
    best_first = asking or wide or first_rows
    return best_first[0]


def _names_question(header: list[str]) -> bool:
    return not _QUESTION_NAMES.isdisjoint(map(normal, header))


def header_names(source: SourceFile, header: list[str], line: int) -> list[str]:
    """The names of the columns. Raises GoldenSetError if there are too many, or two
    with the same name."""
    names = [name.strip() for name in header]
    count = len(names)
    if count > MAX_COLUMNS:
        raise source.error(f"{count:,} columns; at most {MAX_COLUMNS:,}.", line)
    for name in names:
        if name and names.count(name) > 1:
            raise source.error(f"duplicate column '{name}' in the header.", line)
    return names


def _records(
    source: SourceFile, delimiter: str, quoting: Quoting
) -> Iterator[tuple[int, list[str]]]:
    # The module's limit of 131,072 characters a cell is one for the whole process.
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (source.decode(raw, number) for number, raw in source.lines())
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    for cells in reader:
        if cells:
            yield line, cells
        line = reader.line_num + 1
