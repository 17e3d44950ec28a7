"""The formats of files, and how the format of a file is recognised."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from msgspec import Struct

from ragstone.errors import GoldenSetError
from ragstone.golden.formats import delimited, json_text, parquet, workbook
from ragstone.golden.rows import SourceFile


class Format(Struct, frozen=True):
    """A file format of golden sets."""

    name: str
    endings: tuple[str, ...]
    """The extensions of files in this format, each with its dot."""
    read: Callable[[SourceFile], Any]
    """Reads a file into rows, or into one document."""
    is_document: bool = False
    """Whether `read` returns a document, in which the rows must be found."""


def _read_yaml(source: SourceFile) -> Any:
    # Imported on first use: PyYAML takes a while to import.
    from ragstone.golden.formats import yaml_document

    return yaml_document.read_document(source)


LINES = Format("jsonl", (".jsonl", ".ndjson"), json_text.read_rows)
JSON = Format("json", (".json",), json_text.read_document, is_document=True)
FORMATS = (
    LINES,
    JSON,
    Format("yaml", (".yaml", ".yml"), _read_yaml, is_document=True),
    Format("csv", (".csv",), delimited.read_csv),
    Format("tsv", (".tsv", ".tab"), delimited.read_tsv),
    Format("parquet", (".parquet",), parquet.read_rows),
    Format("xlsx", (".xlsx",), workbook.read_rows),
)
BY_ENDING: dict[str, Format] = {}
for _format in FORMATS:
    BY_ENDING.update(dict.fromkeys(_format.endings, _format))


def format_of(source: SourceFile) -> Format:
    """Return the format of a file: by its extension, and for .json also by its content.
    Raises GoldenSetError if it is not supported."""
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
    """Whether a .json file is actually JSON Lines: each of its first two lines that
    aren't blank is an object."""
    try:
        first_rows = list(islice(json_text.read_rows(source), 2))
    except GoldenSetError:
        return False
    return len(first_rows) == 2
