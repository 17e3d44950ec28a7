"""Profiles the columns of a file in one pass over its rows, before any sample is
built."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from ragstone.golden.rows import MAX_COLUMNS, Row, SourceFile

Kind = Literal["text", "number", "unit", "bool", "list", "objects", "object", "other"]
"""The kind of a value. A unit is a number in [0, 1], like scores and labels; objects
are a list of them."""

Path = tuple[str, ...]


class _Missing:
    pass


MISSING = _Missing()
_POSITION = re.compile("[0-9]{1,9}")
MAX_INNER_COLUMNS = 100
MAX_FIRST_ROWS = 50


class Profile(Struct):
    """The columns of a file."""

    columns: dict[Path, set[Kind]] = {}
    """The kinds of values by path, at the top level and one level into objects; none
    for an empty column."""
    found: set[str] = set()
    """The user's paths that exist, the empty one among them."""
    rows: int = 0
    first_rows: list[Row] = []
    """At most MAX_FIRST_ROWS."""


def profile_rows(
    source: SourceFile, rows: Iterable[Row], wanted: Iterable[str]
) -> Profile:
    """Read all `rows`. Raises GoldenSetError if there are too many columns."""
    profile = Profile()
    columns = profile.columns
    inner_columns: Counter[str] = Counter()
    missing = set(wanted)
    for row in rows:
        profile.rows += 1
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
        profile.found |= {
            path for path in missing if follow(row.values, path) is not MISSING
        }
        missing -= profile.found
    return profile


def _add_kind(columns: dict[Path, set[Kind]], path: Path, value: object) -> None:
    kinds = columns.setdefault(path, set())
    kind = kind_of(value)
    if kind is not None:
        kinds.add(kind)


def kind_of(value: object) -> Kind | None:
    """The kind of one value, None for an empty one."""
    match value:
        case None | "" | []:
            return None
        case "0" | "1" | "0.0" | "1.0":
            return "unit"
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
            return "unit" if 0 <= value <= 1 else "number"
        case _:
            return "other"


def follow(value: object, path: str) -> object:
    """The value at the dotted `path` in `value`, MISSING if there is none.

    In a list, the path applies to every item (giving a list of values) or, with a
    number, to one.
    """
    if not path:
        return value
    key, _, inner = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:
            return value[path]
        return follow(value.get(key, MISSING), inner)
    if not isinstance(value, list):
        return MISSING
    if _POSITION.fullmatch(key):
        position = int(key)
        item = value[position] if position < len(value) else MISSING
        return follow(item, inner)
    values = [follow(item, path) for item in value]
    existing_values = [item for item in values if item is not MISSING]
    return existing_values or MISSING
