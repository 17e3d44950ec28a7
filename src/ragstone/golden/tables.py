"""Finds the rows in a JSON or YAML document, at any nesting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragstone.formatting import counted
from ragstone.golden.aliases import FIELDS, ROW_LISTS, normal
from ragstone.golden.profile import MAX_FIRST_ROWS
from ragstone.golden.promptfoo import read_promptfoo
from ragstone.golden.rows import Row, SourceFile, line_of
from ragstone.golden.suggest import mapping_block

_QUESTIONS = frozenset((*FIELDS["question"].strong, *FIELDS["question"].weak, "turns"))
_SEARCHED_LEVELS = 3


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, the dotted path of the list that holds them ("" for the document itself),
    and notes on what is left out."""

    path: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def find_table(source: SourceFile, document: Any, wanted: Mapping[str, str]) -> Table:
    """The rows of `document`: a list of objects, an object of lists, or an object that
    holds either.

    `wanted` is the user's map of field to column; a path that begins with the name of a
    list chooses that list. Raises GoldenSetError if there is no list of rows, or if the
    choice is ambiguous.
    """
    if (tests := read_promptfoo(document)) is not None:
        if not tests.rows:
            raise source.error(
                "the tests of this promptfoo config are in other files.",
                line_of(document, "tests"),
                hint="Name those files as golden sets.",
            )
        rows = tuple(
            Row(row, line_of(tests.items, position)) for row, position in tests.rows
        )
        return Table(tests.path, rows, tests.notes)
    if isinstance(document, list):
        return Table("", tuple(_from_list(source, document)))
    if not isinstance(document, dict):
        raise source.error(
            f"contains {_kind(document)}, not samples.",
            1,
            hint='Expected a list of objects like {"question": "…"}.',
        )
    if squad := _from_squad(document):
        return Table("", squad)
    if isinstance(document.get("turns"), list):
        return Table("", (Row(document, line_of(document, "turns")),))
    named = wanted.get("question", "")
    tables = list(_tables(source, document, named, "", 0))
    chosen = [
        table
        for table in tables
        if any(path.startswith(f"{table.path}.") for path in wanted.values())
    ]
    if len(chosen) == 1:
        return chosen[0]
    asking = [table for table in tables if _asks(table, named)]
    if len(asking) == 1:
        return asking[0]
    if len(asking) > 1:
        return _best_named(source, asking)
    if len(tables) == 1:
        return tables[0]
    if _asks(
        single := Table(
            "", (Row(document, line_of(document, next(iter(document), ""))),)
        ),
        named,
    ):
        return single
    raise _no_table(source, document, tables)


def _tables(
    source: SourceFile, document: dict[str, Any], named: str, prefix: str, level: int
) -> Iterator[Table]:
    columns = _columns(document, named.removeprefix(prefix))
    if columns is not None:
        yield Table(
            prefix.rstrip("."),
            tuple(_from_columns(source, columns, document, named.removeprefix(prefix))),
        )
        return
    for key, value in document.items():
        path = f"{prefix}{key}"
        if (
            isinstance(value, list)
            and value
            and all(isinstance(item, dict) for item in value)
        ):
            yield Table(path, _with_names(key, tuple(_from_list(source, value))))
        elif isinstance(value, dict) and level < _SEARCHED_LEVELS:
            yield from _tables(source, value, named, f"{path}.", level + 1)
    if level == 0 and (keyed := _from_keys(document, named)):
        yield Table("", keyed)


def _with_names(key: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """`rows`; the test cases of a DeepEval run with their names as ids, if several ask
    the same question."""
    questions, names = (
        [row.values.get(name) for row in rows] for name in ("input", "name")
    )
    if key != "testCases" or len(set(map(str, questions))) == len(rows):
        return rows
    named = all(isinstance(name, str) for name in names) and len(
        set(map(str, names))
    ) == len(rows)
    return (
        tuple(Row({"id": row.values["name"], **row.values}, row.line) for row in rows)
        if named
        else rows
    )


def _from_squad(document: dict[str, Any]) -> tuple[Row, ...]:
    """The questions of a file in SQuAD's layout (articles, their paragraphs, their
    questions), with their paragraph."""
    rows: list[Row] = []
    for article in _objects(document.get("data")):
        for paragraph in _objects(article.get("paragraphs")):
            shared = {
                "title": article.get("title"),
                "context": paragraph.get("context"),
            }
            rows += (
                Row({**shared, **question}, None)
                for question in _objects(paragraph.get("qas"))
            )
    return tuple(rows)


def _objects(value: object) -> list[dict[str, Any]]:
    """`value` if it is a list of objects, else nothing."""
    return (
        value
        if isinstance(value, list) and all(isinstance(item, dict) for item in value)
        else []
    )


def _from_list(source: SourceFile, items: list[Any]) -> Iterator[Row]:
    for index, item in enumerate(items):
        line = line_of(items, index)
        if not isinstance(item, dict):
            raise source.error(
                f"item {index + 1} is {_kind(item)}, expected an object.",
                line,
                hint='Write each sample as an object like {"id": "…", "question": "…"}.',
            )
        yield Row(item, line)


def _columns(document: dict[str, Any], named: str) -> dict[str, Any] | None:
    """The columns if `document` is an object of lists (or of objects by row number, as
    pandas writes it)."""
    for kind in (list, dict):
        columns = {
            key: value for key, value in document.items() if isinstance(value, kind)
        }
        questions: list[Any] = [
            value for key, value in columns.items() if _is_question(key, named)
        ]
        if not questions or not questions[0]:
            continue
        values = questions[0] if kind is list else list(questions[0].values())
        numbered = kind is list or all(str(key).isdigit() for key in questions[0])
        if numbered and all(
            value is None or isinstance(value, str) for value in values
        ):
            return columns
    return None


def _from_columns(
    source: SourceFile, columns: dict[str, Any], document: dict[str, Any], named: str
) -> Iterator[Row]:
    name, questions = next(
        (key, value) for key, value in columns.items() if _is_question(key, named)
    )
    keys = list(questions) if isinstance(questions, dict) else range(len(questions))
    for column, values in columns.items():
        if len(values) != len(questions):
            raise source.error(
                f"column '{column}' has {counted(len(values), 'value')}, column '{name}' has {len(questions)}.",
                line_of(document, column),
                hint="All columns of a golden set must have the same length.",
            )
        if isinstance(values, dict) and values.keys() != questions.keys():
            raise source.error(
                f"columns '{column}' and '{name}' number their rows differently."
            )
    for key in keys:
        yield Row(
            {column: values[key] for column, values in columns.items()},
            line_of(questions, key),
        )


def _is_question(key: str, named: str) -> bool:
    """Whether a column holds the question: the one named by the user, or else one with
    a known name."""
    return key == named or normal(key) in _QUESTIONS


def _from_keys(document: dict[str, Any], named: str) -> tuple[Row, ...]:
    """Rows of an object of objects; the key is the id of a row without one."""
    if not document or not all(isinstance(value, dict) for value in document.values()):
        return ()
    rows = tuple(
        Row({"id": key, **value}, line_of(document, key))
        for key, value in document.items()
    )
    return rows if _asks(Table("", rows), named) else ()


def _asks(table: Table, named: str) -> bool:
    inside = named.removeprefix(f"{table.path}.").partition(".")[0]
    return any(
        _is_question(key, inside) for row in table.rows[:50] for key in row.values
    )


def _best_named(source: SourceFile, tables: list[Table]) -> Table:
    shallowest = min(table.path.count(".") for table in tables)
    outer = [table for table in tables if table.path.count(".") == shallowest]
    if len(outer) == 1:
        return outer[0]
    named = [
        table for table in outer if normal(table.path.rpartition(".")[2]) in ROW_LISTS
    ]
    if len(named) == 1:
        return named[0]
    names = ", ".join(f"'{table.path or '(the whole file)'}'" for table in outer)
    raise source.error(
        f"more than one list could be the samples: {names}.",
        hint=f"Choose one in ragstone.toml:\n  {mapping_block(outer[0].rows[:1], outer[0].path)}",
    )


def _no_table(
    source: SourceFile, document: dict[str, Any], tables: list[Table]
) -> Exception:
    lines: list[str] = []
    for table in tables[:10]:
        keys = table.rows[0].values if table.rows else {}
        lines.append(
            f"'{table.path}' (a list of objects with {', '.join(map(repr, list(keys)[:12]))})"
        )
    if not lines:
        lines = [repr(key) for key in list(document)[:20]]
    rows, path = (
        (tables[0].rows[:MAX_FIRST_ROWS], tables[0].path)
        if tables
        else (_rows_of_lists(document), "")
    )
    return source.error(
        f"found no list of samples with a question. Found: {'; '.join(lines) or 'an empty object'}.",
        hint=f"Map the columns in ragstone.toml:\n  {mapping_block(rows, path)}",
    )


def _rows_of_lists(document: dict[str, Any]) -> list[Row]:
    """The first row of an object of lists."""
    return [
        Row(
            {
                key: value[0]
                for key, value in document.items()
                if isinstance(value, list) and value
            }
        )
    ]


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    names = {
        str: "text",
        bool: "a true/false value",
        int: "a number",
        float: "a number",
        list: "a list",
    }
    return names.get(
        type(value), "an object" if isinstance(value, dict) else type(value).__name__
    )
