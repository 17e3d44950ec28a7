"""Finds the lines of the keys in a TOML document, so that messages can say where."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_MULTILINE_ENDS = ("]", "}", '"""', "'''")
"""What the last line of a value on several lines contains."""

KeyPath = tuple[str, ...]
"""The parts of a key, such as ``("metrics", "faithfulness", "min")``. A part can contain
dots."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key and table in the TOML document `text`. The index
    of a table in an array (from "0") is a part of its key.

    The document is split into the smallest parts that are valid TOML: a header, or a
    key with its value, on one or more lines. So only tomllib decides what a key is.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    array_sizes: Counter[KeyPath] = Counter()
    for number, statement in statements(text):
        document = tomllib.loads(statement)
        is_header = statement.lstrip().startswith("[")
        for path in _paths(document):
            lines.setdefault(path if is_header else table + path, number)
        if is_header:
            table = _innermost(document)
        if statement.lstrip().startswith("[["):
            array = table
            table = (*array, str(array_sizes[array]))
            lines[table] = number
            array_sizes[array] += 1
    return lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """The line of a key, or else of the nearest table above it; None if there is
    none."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def statements(text: str) -> Iterator[tuple[int, str]]:
    """The smallest parts of a TOML document that are valid TOML, each with the number
    of its first line. Comments and blank lines are left out."""
    pending: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not pending:
            start = number
        pending.append(line)
        # Parsing after each line of a long value would take quadratic time.
        if len(pending) > 1 and not any(end in line for end in _MULTILINE_ENDS):
            continue
        statement = "\n".join(pending)
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        pending = []
        if parsed:
            yield start, statement


def _paths(document: Mapping[str, Any]) -> Iterator[KeyPath]:
    """All keys and tables in a document."""
    for key, value in document.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *tail) for tail in _paths(value))


def _innermost(document: Any) -> KeyPath:
    """The table that a header opens; `document` is the parsed header."""
    path: KeyPath = ()
    while document:
        if isinstance(document, list):
            document = document[-1]
            continue
        key, document = next(iter(document.items()))
        path = (*path, key)
    return path
