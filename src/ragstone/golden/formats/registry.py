"""The formats of files, and which one a file has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from msgspec import Struct

from ragstone.errors import GoldenSetError
from ragstone.golden.formats import delimited, json_text, parquet, workbook
from ragstone.golden.rows import SourceFile


class Format(Struct, frozen=True):
    """How files with these endings are read: into rows, or into one document in which
    the rows are to be found."""

    name: str
    endings: tuple[str, ...]
    read: Callable[[SourceFile], Any]
    is_document: bool = False


def _yaml(source: SourceFile) -> Any:
    # Its library takes a while to import.
    from ragstone.golden.formats import yaml_document

    return yaml_document.read_document(source)


LINES = Format("jsonl", (".jsonl", ".ndjson"), json_text.read_rows)
JSON = Format("json", (".json",), json_text.read_document, is_document=True)
FORMATS = (
    LINES,
    JSON,
    Format("yaml", (".yaml", ".yml"), _yaml, is_document=True),
    Format("csv", (".csv",), delimited.read_csv),
    Format("tsv", (".tsv", ".tab"), delimited.read_tsv),
    Format("parquet", (".parquet",), parquet.read_rows),
    Format("xlsx", (".xlsx",), workbook.read_rows),
)
BY_ENDING: dict[str, Format] = {}
for _format in FORMATS:
    BY_ENDING.update(dict.fromkeys(_format.endings, _format))


def format_of(source: SourceFile) -> Format:
    """The format of a file, by its ending; of .json also by its content. Raises
    GoldenSetError."""
    ending = source.path.suffix.lower()
    file_format = BY_ENDING.get(ending)
    if file_format is None:
        raise source.error(
            f"unsupported file extension '{ending}'.",
            hint=f"Supported extensions: {', '.join(BY_ENDING)}.",
        )
    if file_format is JSON and _is_lines(source):
        return LINES
    return file_format


def _is_lines(source: SourceFile) -> bool:
    """Whether a .json file is actually JSON Lines: its first two non-empty lines are
    complete objects."""
    try:
        rows = list(islice(json_text.read_rows(source), 2))
        return len(rows) == 2
    except GoldenSetError:
        return False
