"""Reads golden sets that are in memory: data frames, lists of mappings, mappings of
columns. Libraries are recognised by their methods, and not imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from ragstone.golden.rows import MAX_DEPTH, Row, SourceFile

_HINT = 'Expected mappings such as {"question": "…", "reference": "…"}.'

SOURCE = SourceFile(Path(), "data")
"""Stands for a file: messages and origins call the data "data"."""


def read_document(data: Mapping[Any, Any]) -> Any:
    """Return a mapping as plain lists and dicts. Raises GoldenSetError."""
    return _to_json_types(data, line=None, depth=0)


def read_rows(data: object) -> list[Row]:
    """Return the rows of a pandas or Polars data frame, an Arrow table, a Hugging Face
    data set, or an iterable of mappings, numbered from 1. Raises GoldenSetError."""
    rows: list[Row] = []
    for number, item in enumerate(_items_of(data), 1):
        if not isinstance(item, Mapping):
            raise SOURCE.error(
                f"a row must be a mapping, found {type(item).__name__}.",
                number,
                hint=_HINT,
            )
        values = _to_json_types(item, line=number, depth=0)
        rows.append(Row(values, number))
    return rows


def _items_of(data: Any) -> Iterable[Any]:
    if hasattr(data, "reset_index"):  # a data frame of pandas
        if any(name is not None for name in data.index.names):
            # An index with a name, as set_index("id") makes it, is a column.
            data = data.reset_index()
        if not data.columns.is_unique:
            duplicates = data.columns[data.columns.duplicated()]
            raise SOURCE.error(
                f"duplicate column '{duplicates[0]}'.", hint="Rename one of the two."
            )
        return list(data.to_dict("records"))
    for method in ("to_dicts", "to_pylist", "to_list"):
        if hasattr(data, method):
            return list(getattr(data, method)())
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return data
    raise SOURCE.error(
        f"a golden set can't be read from {type(data).__name__}.", hint=_HINT
    )


def _to_json_types(value: Any, *, line: int | None, depth: int) -> Any:
    """Return `value` in the types of JSON, as from a file; the missing values of data
    frames become None."""
    convert_inner = partial(_to_json_types, line=line, depth=depth + 1)
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return None if math.isnan(value) else float(value)
        case _ if depth > MAX_DEPTH:
            raise SOURCE.error(f"nested more than {MAX_DEPTH} levels deep.", line)
        case Mapping():
            return {str(key): convert_inner(item) for key, item in value.items()}
        case set() | frozenset():
            return list(map(convert_inner, sorted(value, key=str)))
        case list() | tuple():
            return list(map(convert_inner, value))
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return convert_inner(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, date):
        return value.isoformat()
    return value
