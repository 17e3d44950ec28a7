"""Reads recorded answers one at a time, in any format of a golden set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ragstone.errors import GoldenSetError, SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden import cells
from ragstone.golden.aliases import RECORDED, SYSTEM_NAMES, normalise_name
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import table_rows
from ragstone.golden.nested_columns import nest_columns
from ragstone.golden.rows import SourceFile, Values

MAX_RECORD_BYTES = 10_000_000

Record = tuple[Values, int]
"""The values of a record, and its line, or the number of its row, from 1."""

TABLE_ENDINGS = frozenset(
    ending
    for ending, file_format in BY_ENDING.items()
    if "json" not in file_format.name
)
"""Endings of files that are tables, such as .csv."""

CONTEXTS_NAMES = (*RECORDED["contexts"].strong, *SYSTEM_NAMES["contexts"])
"""Names of the column of the contexts, in normal form."""

OBJECT_COLUMNS = ("outputs", "output", "inputs", "input")
"""Columns with objects that may have the question, the answer and the contexts, the
most important first."""


def read_records(source: SourceFile) -> Iterator[Record]:
    """Read the records of `source`, one at a time.

    Raises OSError if the file can't be opened, and SystemUnderTestError with the line
    of an invalid record.
    """
    # Only to raise OSError for a file that can't be opened.
    open_regular(source.path, within=source.within, limit=source.max_bytes).close()
    last_line = 0
    is_table = source.path.suffix.lower() in TABLE_ENDINGS
    try:
        for number, row in enumerate(table_rows(source), start=1):
            line = row.line or 0
            # Several rows of a JSON document may be on one line: then the number of the
            # row tells them apart.
            place = line if line > last_line else number
            last_line = line
            try:
                record = _row_record(row.values, is_table)
            except cells.CellError as error:
                raise source.error(f"{error}.", place) from None
            yield record, place
    except GoldenSetError as error:
        raise SystemUnderTestError(
            f"the recorded answers can't be used: {error.message}",
            where=error.where,
            hint='Expected records such as {"id": "q1", "answer": "...", "contexts": ["..."]}, one per line, or a table.',
        ) from None


def _row_record(row: Values, is_table: bool) -> dict[str, object]:
    """Leave out empty cells of `row`, decode cells with JSON, and parse lists and the
    latency from text. Raises CellError."""
    record = nest_columns(
        {name: value for name, value in row.items() if value is not None}
    )
    for name, value in record.items():
        match value:
            case dict() if normalise_name(name) in OBJECT_COLUMNS:
                record[name] = _row_record(value, is_table)
            case str():
                record[name] = _parse(name, value, is_table)
    return record


def _parse(name: str, text: str, is_table: bool) -> object:
    """Parse the `text` in the column `name`. Raises CellError."""
    column = normalise_name(name)
    if column in SYSTEM_NAMES["context_ids"]:
        return cells.to_items(text, split_bars=True, split_commas=True)
    if name == "latency_s":
        with contextlib.suppress(ValueError):
            return float(text)
    if column in CONTEXTS_NAMES:
        try:
            return cells.to_passages(text, split_bars=is_table)
        except cells.CellError as error:
            raise cells.CellError(f"column '{name}' {error}") from None
    return text
