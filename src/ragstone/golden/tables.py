"""Finds the rows in a JSON or YAML document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ragstone.formatting import some
from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.promptfoo import read_promptfoo
from ragstone.golden.rows import Row, SourceFile, Table, line_of
from ragstone.golden.suggest import mapping_block

_QUESTIONS = frozenset((*FIELDS["question"].names, "turns"))
Columns = dict[str, Any]

_SEARCHED_LEVELS = 3
_SEARCHED_ROWS = 50


def find_table(source: SourceFile, document: Any, wanted: Mapping[str, str]) -> Table:
    """The rows of `document`: a list of objects, an object of columns, or an object that
    holds a list of objects.

    `wanted` is the user's map of field to column; a path that begins with the name of a
    list chooses that list. Raises GoldenSetError if there is no list of rows, or if the
    choice is ambiguous.
    """
    tests = read_promptfoo(document)
    if tests is not None:
        if tests.rows == ():
            raise source.error(
                "the tests of this promptfoo config are in other files.",
                hint="Name those files as golden sets.",
            )
        return tests
    if isinstance(document, list):
        return _from_items(source, document)
    if not isinstance(document, dict):
        raise source.error(
            f"contains {document!r:.60}, not samples.",
            1,
            hint='Expected a list of objects like {"question": "…"}.',
        )
    question = wanted.get("question", "")
    row = Row(document, line_of(document))
    single = Table("", (row,))
    if isinstance(document.get("turns"), list):
        return single
    whole = _from_columns(source, document, question)
    if whole:
        return Table("", whole)
    tables = list(_lists(document, "", 0))
    chosen = [table for table in tables if _asks(table, question)]
    for table in tables:
        prefix = f"{table.path}."
        if any(path.startswith(prefix) for path in wanted.values()):
            chosen = [table]
    if len(chosen) > 1:
        names = [repr(table.path) for table in chosen]
        block = mapping_block(chosen[0])
        raise source.error(
            f"more than one list could be the samples: {some(names)}.",
            hint=f"Choose one in ragstone.toml:\n  {block}",
        )
    for table in (*chosen, single):
        if _asks(table, question):
            return table
    if len(tables) == 1:
        return tables[0]
    names = [repr(table.path) for table in tables] or list(map(repr, document))
    first_values = {
        key: value[0]
        for key, value in document.items()
        if isinstance(value, list) and value
    }
    candidates = [*tables, Table("", (Row(first_values),))]
    contents = some(names, 20) or "an empty object"
    block = mapping_block(candidates[0])
    raise source.error(
        f"found no list of samples with a question. Found: {contents}.",
        hint=f"Map the columns in ragstone.toml:\n  {block}",
    )


def _from_items(source: SourceFile, items: list[Any]) -> Table:
    rows = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise source.error(
                f"item {number} is {item!r:.60}, expected an object.",
                hint='Write each sample as an object like {"id": "…", "question": "…"}.',
            )
        rows.append(Row(item, line_of(item)))
    return Table("", tuple(rows))


def _asks(table: Table, question: str) -> bool:
    """Whether a row has a question: in the column of this path, or in one with a known
    name."""
    path_in_table = question.removeprefix(f"{table.path}.")
    column = path_in_table.partition(".")[0]
    rows = islice(table.rows, _SEARCHED_ROWS)
    values = [row.values for row in rows]
    names = set[str]().union(*values)
    return any(_is_question(name, column) for name in names)


def _lists(document: Columns, prefix: str, level: int) -> Iterator[Table]:
    """The lists of objects in a document."""
    for key, value in document.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and level < _SEARCHED_LEVELS:
            yield from _lists(value, f"{path}.", level + 1)
        elif _objects(value):
            rows = [Row(item, line_of(item)) for item in value]
            yield Table(path, tuple(rows))


def _objects(value: object) -> list[Columns]:
    """`value` if it is a list of objects, else nothing."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    return []


def _from_columns(
    source: SourceFile, document: Columns, question: str
) -> tuple[Row, ...]:
    """The rows of an object of columns."""
    columns: dict[str, list[Any]] = {}
    for key, value in document.items():
        if isinstance(value, list):
            columns[key] = value
        elif isinstance(value, dict) and all(map(str.isdigit, value)):
            columns[key] = [*value.values()]  # as pandas writes a column
    asking = [key for key in columns if _is_question(key, question)]
    if not asking:
        return ()
    name = asking[0]
    questions = columns[name]
    if _objects(questions):
        return ()
    count = len(questions)
    for column, values in columns.items():
        if len(values) != count:
            raise source.error(
                f"column '{column}' has {len(values)} values, column '{name}' has {count}.",
                hint="All columns of a golden set must have the same length.",
            )
    rows = []
    for cells in zip(*columns.values(), strict=True):
        row = dict(zip(columns, cells, strict=True))
        rows.append(Row(row))
    return tuple(rows)


def _is_question(key: str, named: str) -> bool:
    """Whether a column holds the question: the one named by the user, or else one with
    a known name."""
    return key == named or normal(key) in _QUESTIONS
