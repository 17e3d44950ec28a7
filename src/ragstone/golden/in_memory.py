"""Rows that are in memory: data frames, lists of mappings, mappings of columns.
Duck-typed: no library is imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from ragstone.golden.rows import MAX_DEPTH, Row, SourceFile

_EXPECTED = 'Expected mappings such as {"question": "…", "reference": "…"}.'

SOURCE = SourceFile(Path(), "data")
"""Stands for the data in messages and origins."""


def read_document(data: Mapping[Any, Any]) -> Any:
    """A mapping as plain lists and dicts. Raises GoldenSetError."""
    return _plain(data, None, 0)


def read_rows(data: object) -> list[Row]:
    """The rows of `data`, numbered from 1: a pandas or Polars data frame, an Arrow
    table, a Hugging Face data set, or an iterable of mappings. Raises GoldenSetError.
    """
    rows: list[Row] = []
    for number, item in enumerate(_items(data), 1):
        if not isinstance(item, Mapping):
            raise SOURCE.error(
                f"a row must be a mapping, found {type(item).__name__}.",
                number,
                hint=_EXPECTED,
            )
        rows.append(Row(_plain(item, number, 0), number))
    return rows


def _items(data: Any) -> Iterable[Any]:
    if hasattr(data, "reset_index"):  # a data frame of pandas
        if any(name is not None for name in data.index.names):
            data = data.reset_index()  # such as set_index("id")
        if not data.columns.is_unique:
            duplicates = data.columns[data.columns.duplicated()]
            twice = duplicates[0]
            raise SOURCE.error(
                f"duplicate column '{twice}'.", hint="Rename one of the two."
            )
        return list(data.to_dict("records"))
    for method in ("to_dicts", "to_pylist", "to_list"):
        if hasattr(data, method):
            return list(getattr(data, method)())
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return data
    raise SOURCE.error(
        f"a golden set can't be read from {type(data).__name__}.", hint=_EXPECTED
    )


def _plain(value: Any, line: int | None, depth: int) -> Any:
    """`value` in the types of JSON, as the other formats give it. What data frames have
    for a missing value is None."""
    inside = depth + 1
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return None if math.isnan(value) else float(value)
        case _ if depth > MAX_DEPTH:
            raise SOURCE.error(f"nested more than {MAX_DEPTH} levels deep.", line)
        case Mapping():
            return {str(key): _plain(item, line, inside) for key, item in value.items()}
        case set() | frozenset():
            return [_plain(item, line, inside) for item in sorted(value, key=str)]
        case list() | tuple():
            return [_plain(item, line, inside) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return _plain(value.tolist(), line, inside)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, date):
        return value.isoformat()
    return value
