"""Rows that are in memory: data frames, lists of mappings, mappings of columns.
Duck-typed: no library is imported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from ragstone.golden.rows import MAX_DEPTH, Row, SourceFile

_EXPECTED = 'Expected mappings such as {"question": "…", "reference": "…"}.'


def source_of(data: object) -> SourceFile:
    name = (
        "mapping"
        if isinstance(data, Mapping)
        else "list"
        if isinstance(data, Iterable)
        else "data"
    )
    for method, kind in (
        ("to_dicts", "data frame"),
        ("to_pylist", "table"),
        ("to_list", "dataset"),
    ):
        if callable(getattr(data, method, None)):
            name = kind
    return SourceFile(Path(), "data frame" if _is_pandas(data) else name)


def read_document(source: SourceFile, data: Mapping[Any, Any]) -> Any:
    """A mapping as plain lists and dicts. Raises GoldenSetError."""
    return _plain(source, data, None, 0)


def read_rows(source: SourceFile, data: object) -> list[Row]:
    """The rows of `data`, numbered from 1: a pandas or Polars data frame, an Arrow
    table, a Hugging Face data set, or an iterable of mappings. Raises GoldenSetError.
    """
    rows: list[Row] = []
    for number, item in enumerate(_items(source, data), 1):
        if not isinstance(item, Mapping):
            raise source.error(
                f"a row must be a mapping, found {type(item).__name__}.",
                number,
                hint=_EXPECTED,
            )
        rows.append(Row(_plain(source, item, number, 0), number))
    return rows


def _items(source: SourceFile, data: Any) -> Iterable[object]:
    if _is_pandas(data):
        return _pandas_rows(source, data)
    for method in ("to_dicts", "to_pylist", "to_list"):
        convert: Callable[[], Iterable[object]] | None = getattr(data, method, None)
        if callable(convert):
            return convert()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return data
    raise source.error(
        f"a golden set can't be read from {type(data).__name__}.", hint=_EXPECTED
    )


def _is_pandas(data: object) -> bool:
    return all(
        hasattr(data, name)
        for name in ("columns", "index", "itertuples", "reset_index")
    )


def _pandas_rows(source: SourceFile, frame: Any) -> Iterator[dict[str, object]]:
    if any(name is not None for name in frame.index.names):  # such as set_index("id")
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise source.error(
            f"duplicate column '{twice}'.", hint="Rename one of the two."
        )
    for row in frame.itertuples(index=False, name=None):
        yield dict(zip(names, row, strict=True))


def _plain(source: SourceFile, value: Any, line: int | None, depth: int) -> Any:
    """`value` in the types of JSON, as the other formats give it. What data frames have
    for a missing value is None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if depth > MAX_DEPTH:
        raise source.error(f"nested more than {MAX_DEPTH} levels deep.", line)
    if isinstance(value, Mapping):
        return {
            str(key): _plain(source, item, line, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(source, item, line, depth + 1) for item in items]
    if callable(getattr(value, "tolist", None)):  # NumPy's arrays and scalars
        return _plain(source, value.tolist(), line, depth + 1)
    if isinstance(value, date):
        return None if type(value).__name__ == "NaTType" else value.isoformat()
    return None if type(value).__name__ in ("NAType", "NaTType") else value
