"""Excel workbooks (.xlsx), through openpyxl (the extra ``ragstone[xlsx]``): a sheet
with a header row, row by row."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, time, timedelta
from typing import Any

from ragstone.golden.formats.delimited import find_header, header_names
from ragstone.golden.rows import Row, SourceFile, first_line

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
            # zipfile never unpacks more of a part than the archive states as its size.
            with zipfile.ZipFile(stream) as archive:
                size = sum(part.file_size for part in archive.infolist())
            stream.seek(0)
            if size > MAX_UNPACKED_BYTES:
                size_mb = size / 1e6
                max_mb = MAX_UNPACKED_BYTES / 1e6
                raise source.error(
                    f"unpacks to {size_mb:,.0f} MB; at most {max_mb:,.0f} MB.",
                    hint="Export the sheet as CSV UTF-8, which is read line by line.",
                )
            with closing(
                openpyxl.load_workbook(stream, read_only=True, data_only=True)
            ) as book:
                yield from _rows(source, book)
    except _unreadable() as error:
        raise source.error(
            f"not a workbook that can be read: {first_line(error)}"
        ) from None


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


def _rows(source: SourceFile, book: Any) -> Iterator[Row]:
    sheets = [sheet for sheet in book.worksheets if any(_filled_rows(sheet))]
    if len(sheets) > 1:
        titles = ", ".join(repr(sheet.title) for sheet in sheets)
        raise source.error(
            f"{len(sheets)} sheets have content: {titles}.",
            hint="Keep the golden set in a workbook with one sheet, or export its sheet as CSV UTF-8.",
        )
    for sheet in sheets:
        rows_of_text = ((line, _texts(cells)) for line, cells in _filled_rows(sheet))
        header_line, header = find_header(rows_of_text)
        names = header_names(source, header, header_line)
        for line, cells in _filled_rows(sheet):
            if line > header_line:
                values = dict(zip(names, cells, strict=False))
                values.pop("", None)
                yield Row(values, line)


def _texts(cells: Sequence[object]) -> list[str]:
    return ["" if cell is None else str(cell) for cell in cells]


def _filled_rows(sheet: Any) -> Iterator[tuple[int, list[object]]]:
    """The rows that are not empty, with their numbers."""
    sheet.reset_dimensions()  # some programs state a wrong size
    for line, raw in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = list(map(_value, raw))
        if any(cell is not None for cell in cells):
            yield line, cells


def _value(cell: object) -> object:
    """`cell` as a JSON-like value; a whole number is an integer, as the sheet shows
    it."""
    match cell:
        case float() if cell.is_integer() and abs(cell) < 1e15:
            return int(cell)
        case date() | time():
            return cell.isoformat()
        case timedelta():
            return str(cell)
        case str() if not cell.strip():
            return None
        case _:
            return cell
