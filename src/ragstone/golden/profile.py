"""Profiles the columns of a file in one pass over its rows, before any sample is
built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from ragstone.golden.rows import MAX_COLUMNS, Row, SourceFile


class Kinds(IntFlag):
    """The kinds of values in a column; 0 for an empty one."""

    NOTHING = 0
    TEXT = 1
    NUMBER = 2
    UNIT = 4
    """A number in [0, 1], also as text, like scores and labels."""
    BOOL = 8
    LIST = 16
    OBJECTS = 32
    """A list of objects."""
    OBJECT = 64
    OTHER = 128


class _Missing:
    pass


MISSING = _Missing()
MAX_INNER_COLUMNS = 100
MAX_FIRST_ROWS = 50
_TEXT, _NUMBER, _UNIT, _BOOL, _LIST, _OBJECTS, _OBJECT, _OTHER = (
    kind.value for kind in list(Kinds)
)
_UNITS = frozenset({"0", "1", "0.0", "1.0"})


@dataclass(slots=True)
class Profile:
    """The columns of a file.

    `columns` maps a path to its kinds, at the top level and one level into objects.
    `inside` counts the keys of each object. `found` are the user's paths that exist.
    """

    columns: dict[tuple[str, ...], Kinds] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    rows: int = 0
    first_rows: list[Row] = field(default_factory=list)
    """At most MAX_FIRST_ROWS."""
    inside: dict[str, int] = field(default_factory=dict)


def profile_rows(
    source: SourceFile, rows: Iterable[Row], wanted: Iterable[str]
) -> Profile:
    """Read all `rows`. Raises GoldenSetError if there are too many columns."""
    profile = Profile()
    kinds: dict[str, int] = {}
    open_paths = {path for path in wanted if path}
    for row in rows:
        profile.rows += 1
        if len(profile.first_rows) < MAX_FIRST_ROWS:
            profile.first_rows.append(row)
        for key, value in row.values.items():
            kinds[key] = kinds.get(key, 0) | kind_of(value)
            if isinstance(value, dict):
                _profile_object(profile, str(key), value)
        if len(kinds) + len(profile.columns) > MAX_COLUMNS:
            raise source.error(
                f"more than {MAX_COLUMNS:,} different columns.", row.line
            )
        if open_paths:
            present = {
                path for path in open_paths if follow(row.values, path) is not MISSING
            }
            profile.found |= present
            open_paths -= present
    inner = profile.columns
    profile.columns = {}
    for key, kind in kinds.items():
        profile.columns[(str(key),)] = Kinds(kind)
        profile.columns.update(
            {path: kinds_below for path, kinds_below in inner.items() if path[0] == key}
        )
    return profile


def _profile_object(profile: Profile, key: str, value: Mapping[str, object]) -> None:
    for inner, nested in value.items():
        path = (key, str(inner))
        if path not in profile.columns:
            # An object whose keys are data (document ids and grades) has no columns.
            if profile.inside.get(key, 0) >= MAX_INNER_COLUMNS:
                continue
            profile.inside[key] = profile.inside.get(key, 0) + 1
        profile.columns[path] = Kinds(
            profile.columns.get(path, Kinds.NOTHING).value | kind_of(nested)
        )


def kind_of(value: object) -> int:
    """The kind of one value, as the int of a `Kinds`, because combining flags is slow
    and there are many values."""
    if isinstance(value, str):
        return (
            _UNIT if value in _UNITS else 0 if not value or value.isspace() else _TEXT
        )
    if value is None:
        return 0
    if isinstance(value, list):
        return (_OBJECTS if isinstance(value[0], dict) else _LIST) if value else 0
    if isinstance(value, dict):
        return _OBJECT
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int | float):
        return _UNIT if 0 <= value <= 1 else _NUMBER
    return _OTHER


def follow(value: object, path: str) -> object:
    """The value at the dotted `path` in `value`, MISSING if there is none.

    A key that contains dots is matched verbatim. In a list, the path applies to every
    item (giving a list of values) or, with a number, to one.
    """
    if not path:
        return value
    if isinstance(value, Mapping):
        if path in value:
            return value[path]
        for position in range(len(path) - 1, 0, -1):
            if path[position] == "." and path[:position] in value:
                return follow(value[path[:position]], path[position + 1 :])
        return MISSING
    if isinstance(value, list):
        head, _, tail = path.partition(".")
        if head.isascii() and head.isdigit() and len(head) < 10:
            return follow(value[int(head)], tail) if int(head) < len(value) else MISSING
        inner_values = [
            inner for item in value if (inner := follow(item, path)) is not MISSING
        ]
        return inner_values or MISSING
    return MISSING
