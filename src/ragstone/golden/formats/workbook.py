"""Reads Excel workbooks (.xlsx), through openpyxl (the extra ``ragstone[xlsx]``): one
sheet with a header row."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, time, timedelta
from typing import Any

from ragstone.golden.formats.delimited import Record, find_header, header_names
from ragstone.golden.rows import Row, SourceFile, first_line_of

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Maximum size of a workbook's unpacked parts: a small archive may unpack to a very large
one."""
_MAX_EXACT_NUMBER = 1e15
"""Excel keeps 15 digits: a larger number is not exact."""


def read_rows(source: SourceFile) -> Iterator[Row]:
    """Yield the rows of `source`, with the row number in the sheet as the line.

    Formulas are read as their last calculated value. Raises GoldenSetError, also if more
    than one sheet has content.
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
            # openpyxl warns of styles and validations, which are not read.
            warnings.simplefilter("ignore")
            # zipfile never unpacks more of a part than the archive states as its size.
            with zipfile.ZipFile(stream) as archive:
                size = sum(part.file_size for part in archive.infolist())
            stream.seek(0)
            if size > MAX_UNPACKED_BYTES:
                size_mb = size / 1e6
                max_mb = MAX_UNPACKED_BYTES / 1e6
                raise source.error(
                    f"unpacks to {size_mb:,.0f} MB; at most {max_mb:,.0f} MB are allowed.",
                    hint="Export the sheet as CSV UTF-8, which is read line by line.",
                )
            with closing(
                openpyxl.load_workbook(stream, read_only=True, data_only=True)
            ) as book:
                yield from _read_sheet(source, book)
    except _openpyxl_errors() as error:
        raise source.error(
            f"not a workbook that can be read: {first_line_of(error)}"
        ) from None


def _openpyxl_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that openpyxl raises for a damaged workbook."""
    from openpyxl.utils.exceptions import InvalidFileException

    # Raised if an element or attribute is missing, or a string or style that a cell
    # refers to.
    missing_part_errors = (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
    )
    archive_errors = (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
    )
    # The standard library and lxml, which openpyxl uses if it is installed, raise
    # SyntaxError for XML that isn't valid.
    return (*archive_errors, *missing_part_errors, SyntaxError, InvalidFileException)


def _read_sheet(source: SourceFile, book: Any) -> Iterator[Row]:
    sheets = [sheet for sheet in book.worksheets if any(_filled_rows(sheet))]
    if len(sheets) > 1:
        titles = ", ".join(repr(sheet.title) for sheet in sheets)
        raise source.error(
            f"{len(sheets)} sheets have content: {titles}.",
            hint="Keep the golden set in a workbook with one sheet, or export its sheet as CSV UTF-8.",
        )
    for sheet in sheets:
        records = (Record(line, _texts(cells)) for line, cells in _filled_rows(sheet))
        header = find_header(records)
        names = header_names(source, header)
        for line, cells in _filled_rows(sheet):
            if line > header.line:
                values = dict(zip(names, cells, strict=False))
                values.pop("", None)
                yield Row(values, line)


def _texts(cells: Sequence[object]) -> list[str]:
    return ["" if cell is None else str(cell) for cell in cells]


def _filled_rows(sheet: Any) -> Iterator[tuple[int, list[object]]]:
    """Yield the rows that are not empty, with their numbers."""
    sheet.reset_dimensions()  # some programs write a wrong size
    for line, raw_cells in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = list(map(_to_json_type, raw_cells))
        if any(cell is not None for cell in cells):
            yield line, cells


def _to_json_type(cell: object) -> object:
    """Return the value of a cell in a type of JSON, None if it is blank. A whole number
    is an integer, as Excel shows it."""
    match cell:
        case float() if cell.is_integer() and abs(cell) < _MAX_EXACT_NUMBER:
            return int(cell)
        case date() | time():
            return cell.isoformat()
        case timedelta():
            return str(cell)
        case str() if not cell.strip():
            return None
        case _:
            return cell
