"""Profiles the columns of a file in one pass over its rows, before any sample is
built."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from ragstone.golden.rows import MAX_COLUMNS, Row, SourceFile

Kind = Literal[
    "text", "number", "fraction", "bool", "list", "objects", "object", "other"
]
"""The kind of a value. ``fraction`` is a number from 0 to 1, such as a score or a label;
``objects`` is a list of objects."""

ColumnPath = tuple[str, ...]
"""The name of a column, or of an object and of a key in it."""


class _Missing:
    pass


MISSING = _Missing()
"""Stands for a value that doesn't exist, as None may be one."""

_LIST_INDEX = re.compile("[0-9]{1,9}")

MAX_INNER_COLUMNS = 100
"""Maximum number of keys of one object that count as columns."""

MAX_FIRST_ROWS = 50
"""Maximum number of rows that a profile keeps, to suggest columns from."""


class Profile(Struct):
    """The columns of a file."""

    columns: dict[ColumnPath, set[Kind]] = {}
    """The kinds of values of each column, at the top level and one level into objects;
    an empty set for an empty column."""
    existing_paths: set[str] = set()
    """The user's paths that exist, and "" if the user leaves a field out."""
    row_count: int = 0
    first_rows: list[Row] = []
    """At most MAX_FIRST_ROWS."""


def profile_rows(
    source: SourceFile, rows: Iterable[Row], user_paths: Iterable[str]
) -> Profile:
    """Read all `rows`, and look for the columns that the user maps. Raises
    GoldenSetError if there are too many columns."""
    profile = Profile()
    columns = profile.columns
    inner_columns: Counter[str] = Counter()
    missing_paths = set(user_paths)
    for row in rows:
        profile.row_count += 1
        if len(profile.first_rows) < MAX_FIRST_ROWS:
            profile.first_rows.append(row)
        for key, value in row.values.items():
            _add_kind(columns, (str(key),), value)
            if not isinstance(value, dict):
                continue
            for inner, nested in value.items():
                path = (str(key), str(inner))
                if path not in columns:
                    # An object whose keys are data (ids and grades) has no columns.
                    if inner_columns[key] == MAX_INNER_COLUMNS:
                        continue
                    inner_columns[key] += 1
                _add_kind(columns, path, nested)
        if len(columns) > MAX_COLUMNS:
            raise source.error(
                f"more than {MAX_COLUMNS:,} different columns.", row.line
            )
        profile.existing_paths |= {
            path for path in missing_paths if value_at(row.values, path) is not MISSING
        }
        missing_paths -= profile.existing_paths
    return profile


def _add_kind(
    columns: dict[ColumnPath, set[Kind]], path: ColumnPath, value: object
) -> None:
    kinds = columns.setdefault(path, set())
    kind = kind_of(value)
    if kind is not None:
        kinds.add(kind)


def kind_of(value: object) -> Kind | None:
    """Return the kind of one value, None if it is empty."""
    match value:
        case None | "" | []:
            return None
        case "0" | "1" | "0.0" | "1.0":  # a label, in a format without numbers
            return "fraction"
        case str():
            return None if value.isspace() else "text"
        case [dict(), *_]:
            return "objects"
        case list():
            return "list"
        case dict():
            return "object"
        case bool():
            return "bool"
        case int() | float():
            return "fraction" if 0 <= value <= 1 else "number"
        case _:
            return "other"


def value_at(value: object, path: str) -> object:
    """Return the value at the dotted `path` in `value`, MISSING if there is none.

    In a list, a number in the path chooses an item; else the path applies to every item,
    and the result is a list of values.
    """
    if not path:
        return value
    key, _, inner_path = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:  # a key that has dots itself
            return value[path]
        return value_at(value.get(key, MISSING), inner_path)
    if not isinstance(value, list):
        return MISSING
    if _LIST_INDEX.fullmatch(key):
        index = int(key)
        item = value[index] if index < len(value) else MISSING
        return value_at(item, inner_path)
    values = [value_at(item, path) for item in value]
    existing_values = [item for item in values if item is not MISSING]
    return existing_values or MISSING
