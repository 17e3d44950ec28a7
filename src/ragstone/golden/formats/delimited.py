"""CSV and TSV: one header line, and cells that can contain line breaks inside quotes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from ragstone.golden.rows import MAX_COLUMNS, MAX_LINE_BYTES, Row, SourceFile

Quoting = Literal[0, 3]
_DELIMITERS = (",", ";", "\t")


def read_csv(source: SourceFile) -> Iterator[Row]:
    """The rows of a file separated by commas, semicolons or tabs, whichever its header uses. Raises GoldenSetError."""
    yield from _read(source, _delimiter(source), csv.QUOTE_MINIMAL)


def read_tsv(source: SourceFile) -> Iterator[Row]:
    """The rows of a file separated by tabs, with quotes where they pair up and as plain characters where not."""
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
        line, header = next(records, (1, []))
        names = _header(source, header, line)
        for line, cells in records:
            if any(cell.strip() for cell in cells):
                yield Row(_row(source, names, cells, line), line)
    except csv.Error as error:
        raise source.error(
            f"not valid CSV in the record after line {line}: {error}.",
            line,
            hint="Put a cell with quotes, delimiters or line breaks in double quotes, and double its quotes.",
        ) from None


def _header(source: SourceFile, header: list[str], line: int) -> list[str]:
    names = [name.strip() for name in header]
    doubled = [name for name, times in Counter(names).items() if times > 1 and name]
    if doubled:
        raise source.error(f"duplicate column '{doubled[0]}' in the header.", line)
    if len(names) > MAX_COLUMNS:
        raise source.error(f"{len(names):,} columns; at most {MAX_COLUMNS:,}.", line)
    return names


def _row(source: SourceFile, names: list[str], cells: list[str], line: int) -> dict[str, object]:
    if len(cells) > len(names) and any(cell.strip() for cell in cells[len(names) :]):
        raise source.error(
            f"{len(cells)} cells, but the header has {len(names)} columns.",
            line,
            hint="Put a cell that holds the delimiter in double quotes.",
        )
    return {name: cell if cell.strip() else None for name, cell in zip(names, cells, strict=False)}


def _records(source: SourceFile, delimiter: str, quoting: Quoting) -> Iterator[tuple[int, list[str]]]:
    _allow_wide_cells()
    reader = csv.reader(_lines(source), delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    for cells in reader:
        if cells:
            yield line, cells
        line = reader.line_num + 1


def _lines(source: SourceFile) -> Iterator[str]:
    try:
        with source.open() as stream:
            number = 0
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise source.error(f"line longer than {MAX_LINE_BYTES:,} bytes.", number)
                yield source.decode(raw, number)
    except OSError as error:
        raise source.unreadable(error) from None


def _delimiter(source: SourceFile) -> str:
    """The delimiter that gives the header the most columns; a comma where all give one."""

    def columns(delimiter: str) -> int:
        try:
            _, header = next(_records(source, delimiter, csv.QUOTE_MINIMAL), (1, []))
        except csv.Error:
            return 0
        return len(header)

    return max(_DELIMITERS, key=columns)


def _allow_wide_cells() -> None:
    """Lift the csv module's limit of 131,072 characters a cell, which is one setting for the whole process."""
    if csv.field_size_limit() < MAX_LINE_BYTES:
        csv.field_size_limit(MAX_LINE_BYTES)
