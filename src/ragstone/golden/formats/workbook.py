"""Excel workbooks (.xlsx), through openpyxl (the extra ``ragstone[xlsx]``): a sheet
with a header row, row by row."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

from ragstone.golden.formats.delimited import MAX_TITLE_ROWS, header_names, header_row
from ragstone.golden.rows import MAX_COLUMNS, Row, SourceFile

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Maximum size of a workbook's unpacked parts: a small archive may hold a lot."""


def read_rows(source: SourceFile) -> Iterator[Row]:
    """The rows of `source`, with the row number of the sheet as the line. Raises
    GoldenSetError.

    Only one sheet may have content. Formulas are read as their last calculated value.
    """
    try:
        import openpyxl
    except ImportError:
        raise source.error(
            "reading a workbook needs openpyxl, which is not installed.",
            hint='Run: pip install "ragstone[xlsx]"',
        ) from None
    try:
        with source.open_document() as stream, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # about styles and validations that are not read
            _refuse_large(source, stream)
            with closing(
                openpyxl.load_workbook(stream, read_only=True, data_only=True)
            ) as book:
                yield from _rows(source, book)
    except _unreadable() as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise source.error(f"not a workbook that can be read: {reason[:200]}") from None


def _unreadable() -> tuple[type[Exception], ...]:
    """What a damaged workbook makes openpyxl raise."""
    from openpyxl.utils.exceptions import InvalidFileException

    # Elements and attributes that openpyxl takes for granted, and strings and styles
    # that cells refer to.
    taken_for_granted = (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
    )
    packed = (OSError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
    # SyntaxError: of XML, by the standard library or by lxml, which openpyxl uses if it
    # is installed.
    return (*packed, *taken_for_granted, SyntaxError, InvalidFileException)


def _refuse_large(source: SourceFile, stream: Any) -> None:
    # zipfile never unpacks more of a part than the archive states as its size.
    with zipfile.ZipFile(stream) as archive:
        size = sum(part.file_size for part in archive.infolist())
    stream.seek(0)
    if size > MAX_UNPACKED_BYTES:
        raise source.error(
            f"unpacks to {size / 1e6:,.0f} MB; at most {MAX_UNPACKED_BYTES / 1e6:,.0f} MB.",
            hint="Export the sheet as CSV UTF-8, which is read line by line.",
        )


def _rows(source: SourceFile, book: Any) -> Iterator[Row]:
    sheets = [
        sheet
        for sheet in book.worksheets
        if any(_is_filled(cells) for _, cells in _cells(sheet))
    ]
    if len(sheets) > 1:
        raise source.error(
            f"{len(sheets)} sheets have content: {', '.join(repr(sheet.title) for sheet in sheets)}.",
            hint="Keep the golden set in a workbook with one sheet, or export its sheet as CSV UTF-8.",
        )
    for sheet in sheets:
        line, header = _header(sheet)
        titles = [
            str(cell) if (cell := _value(raw)) is not None else "" for raw in header
        ]
        while not titles[-1].strip():
            titles.pop()
        names = header_names(source, titles, line)
        for number, cells in _cells(sheet, columns=len(names)):
            if number > line and _is_filled(cells):
                yield Row(
                    {
                        name: _value(raw)
                        for name, raw in zip(names, cells, strict=False)
                        if name
                    },
                    number,
                )


def _header(sheet: Any) -> tuple[int, tuple[object, ...]]:
    """The row of the column names, with its number: of those with more than one cell,
    the one that names the question, or else the first. Rows of a title above it are
    passed over.
    """
    filled = ((number, cells) for number, cells in _cells(sheet) if _is_filled(cells))
    first_rows = list(islice(filled, MAX_TITLE_ROWS + 1))
    wide_rows = [
        row for row in first_rows if sum(cell is not None for cell in row[1]) > 1
    ]
    return header_row(first_rows) or (wide_rows or first_rows)[0]


def _cells(
    sheet: Any, columns: int = MAX_COLUMNS
) -> Iterator[tuple[int, tuple[object, ...]]]:
    sheet.reset_dimensions()  # some programs state a wrong size
    return enumerate(sheet.iter_rows(max_col=columns, values_only=True), 1)


def _is_filled(cells: tuple[object, ...]) -> bool:
    return any(cell is not None and str(cell).strip() for cell in cells)


def _value(cell: object) -> object:
    """`cell` as a JSON-like value; a whole number is an integer, as the sheet shows
    it."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return int(cell)
    if isinstance(cell, date | datetime | time):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return str(cell)
    return None if isinstance(cell, str) and not cell.strip() else cell
