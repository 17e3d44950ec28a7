"""Finds the rows in a JSON or YAML document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ragstone.formatting import join_first
from ragstone.golden.aliases import FIELDS, normalise_name
from ragstone.golden.promptfoo import read_promptfoo
from ragstone.golden.rows import Row, SourceFile, Table, line_of
from ragstone.golden.suggest import suggest_mapping

JsonObject = dict[str, Any]

_QUESTION_NAMES = frozenset((*FIELDS["question"].names, "turns"))

_MAX_SEARCHED_LEVELS = 3
"""Number of objects inside each other in which lists are looked for."""

_MAX_SEARCHED_ROWS = 50
"""Number of rows in which a question is looked for: the first may lack it."""
_MAX_SHOWN_NAMES = 20


def find_table(
    source: SourceFile, document: Any, user_columns: Mapping[str, str]
) -> Table:
    """Return the rows of `document`: a list of objects, an object of columns, one sample,
    or an object that holds a list of objects.

    `user_columns` is the user's map of field to column. A path that begins with the path
    of a list chooses that list. Raises GoldenSetError if there are no rows, or if more
    than one list could be meant.
    """
    promptfoo_tests = read_promptfoo(document)
    if promptfoo_tests is not None:
        if promptfoo_tests.rows == ():
            raise source.error(
                "the tests of this promptfoo config are in other files.",
                hint="Name those files as golden sets.",
            )
        return promptfoo_tests
    if isinstance(document, list):
        return _table_of_items(source, document)
    if not isinstance(document, dict):
        raise source.error(
            f"contains {document!r:.60}, not samples.",
            1,
            hint='Expected a list of objects like {"question": "…"}.',
        )
    question_column = user_columns.get("question", "")
    row = Row(document, line_of(document))
    one_sample = Table("", (row,))
    if isinstance(document.get("turns"), list):
        return one_sample
    rows = _rows_of_columns(source, document, question_column)
    if rows:
        return Table("", rows)
    tables = list(_inner_tables(document, path_prefix="", level=0))
    candidates = [table for table in tables if _has_question(table, question_column)]
    for table in tables:
        prefix = f"{table.path}."
        if any(path.startswith(prefix) for path in user_columns.values()):
            candidates = [table]
    if len(candidates) > 1:
        names = [repr(table.path) for table in candidates]
        block = suggest_mapping(candidates[0])
        raise source.error(
            f"more than one list could be the samples: {join_first(names)}.",
            hint=f"Choose one in ragstone.toml:\n  {block}",
        )
    for table in (*candidates, one_sample):
        if _has_question(table, question_column):
            return table
    # The only list may have the question under a name that is not known.
    if len(tables) == 1:
        return tables[0]
    raise _no_samples_error(source, document, tables)


def _no_samples_error(
    source: SourceFile, document: JsonObject, tables: list[Table]
) -> Exception:
    """Return the error for a document without a list that has a question."""
    names = [repr(table.path) for table in tables] or list(map(repr, document))
    contents = join_first(names, _MAX_SHOWN_NAMES) or "an empty object"
    # Without a list of objects, the document may be an object of columns.
    first_cells = {
        key: value[0]
        for key, value in document.items()
        if isinstance(value, list) and value
    }
    table_of_columns = Table("", (Row(first_cells),))
    likely_table = tables[0] if tables else table_of_columns
    block = suggest_mapping(likely_table)
    return source.error(
        f"found no list of samples with a question. Found: {contents}.",
        hint=f"Map the columns in ragstone.toml:\n  {block}",
    )


def _table_of_items(source: SourceFile, items: list[Any]) -> Table:
    rows = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise source.error(
                f"item {number} is {item!r:.60}, expected an object.",
                hint='Write each sample as an object like {"id": "…", "question": "…"}.',
            )
        rows.append(Row(item, line_of(item)))
    return Table("", tuple(rows))


def _has_question(table: Table, question_column: str) -> bool:
    """Whether one of the first rows has a question: in the column that the user maps, or
    in one with a known name."""
    path_in_table = question_column.removeprefix(f"{table.path}.")
    user_column = path_in_table.partition(".")[0]
    rows = islice(table.rows, _MAX_SEARCHED_ROWS)
    values = [row.values for row in rows]
    columns = set[str]().union(*values)
    return any(_is_question_column(column, user_column) for column in columns)


def _inner_tables(
    document: JsonObject, *, path_prefix: str, level: int
) -> Iterator[Table]:
    """Yield the lists of objects in a document."""
    for key, value in document.items():
        path = f"{path_prefix}{key}"
        if isinstance(value, dict) and level < _MAX_SEARCHED_LEVELS:
            yield from _inner_tables(value, path_prefix=f"{path}.", level=level + 1)
        elif _are_objects(value):
            rows = [Row(item, line_of(item)) for item in value]
            yield Table(path, tuple(rows))


def _are_objects(value: object) -> bool:
    """Whether `value` is a list of objects, and not empty."""
    return (
        isinstance(value, list)
        and value != []
        and all(isinstance(item, dict) for item in value)
    )


def _rows_of_columns(
    source: SourceFile, document: JsonObject, question_column: str
) -> tuple[Row, ...]:
    """Return the rows of an object of columns; none if `document` is something else."""
    columns: dict[str, list[Any]] = {}
    for key, value in document.items():
        if isinstance(value, list):
            columns[key] = value
        elif isinstance(value, dict) and all(map(str.isdigit, value)):
            # pandas writes a column as an object, by the numbers of the rows.
            columns[key] = [*value.values()]
    names = [key for key in columns if _is_question_column(key, question_column)]
    if not names:
        return ()
    name = names[0]
    questions = columns[name]
    if _are_objects(questions):
        return ()
    count = len(questions)
    for column, values in columns.items():
        if len(values) != count:
            raise source.error(
                f"column '{column}' has {len(values)} values, but column '{name}' has {count}.",
                hint="All columns of a golden set must have the same length.",
            )
    rows = []
    for cells in zip(*columns.values(), strict=True):
        row = dict(zip(columns, cells, strict=True))
        rows.append(Row(row))
    return tuple(rows)


def _is_question_column(column: str, user_column: str) -> bool:
    """Whether a column is the one that the user maps to the question, or has a known name
    of it."""
    return column == user_column or normalise_name(column) in _QUESTION_NAMES
