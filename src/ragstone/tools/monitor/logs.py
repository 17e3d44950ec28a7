"""Reads logs: JSON Lines, also compressed, JSON lists, CSV, TSV, Parquet and traces.

A line that can't be used is counted, and the next ones are read. A damaged file is read
up to the damage.
"""

from __future__ import annotations

import glob
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragstone.errors import ConfigError, GoldenSetError, SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden.rows import SourceFile
from ragstone.system.json_records import MAX_RECORD_BYTES, TABLE_ENDINGS, read_records
from ragstone.tools.monitor.traces import interactions_of

NOT_JSON = "lines without valid JSON"
NOT_OBJECT = "lines without a JSON object"
TOO_LONG = f"lines longer than {MAX_RECORD_BYTES:,} bytes"

_GZIP_SIGNATURE = b"\x1f\x8b"

_START_BYTES = 1024
"""A JSON list is recognized by so many bytes."""

_BLANK_BYTES = b"\xef\xbb\xbf \t\r\n"
"""White space, and the byte order mark of UTF-8."""

Record = Mapping[str, Any]


def log_files(paths: Sequence[str]) -> list[Path]:
    """List the files that `paths` and globs name, each once. Raises ConfigError for one
    that names no file."""
    files: dict[Path, None] = {}
    for path in paths:
        matches = [path]
        if not Path(path).exists():
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
        if not matches:
            raise ConfigError(
                "log not found.",
                where=path,
                hint="Check the path, or use a glob such as 'logs/*.jsonl*'.",
            )
        files |= dict.fromkeys(map(Path, matches))
    return list(files)


def read_log(path: Path, problems: Counter[str]) -> Iterator[Record]:
    """Yield the records in `path`. Lines that are no record are counted in `problems`,
    and so is what makes the rest of the file unreadable.

    Raises ConfigError if the file can't be opened.
    """
    try:
        with closing(open_regular(path)) as file:
            signature = file.read(len(_GZIP_SIGNATURE))
            file.seek(0)
            content = file
            if signature == _GZIP_SIGNATURE:
                content = cast(BinaryIO, gzip.GzipFile(fileobj=file))
            yield from _records(path, content, problems)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        error_name = type(error).__name__
        problems[f"{path} is cut short or damaged ({error_name})"] += 1
    except (SystemUnderTestError, GoldenSetError) as error:
        problems[f"{path} can't be read further: {error.message}"] += 1
    except OSError as error:
        raise ConfigError(
            f"can't be read: {error.strerror or error}.", where=str(path)
        ) from None


def _records(path: Path, content: BinaryIO, problems: Counter[str]) -> Iterator[Record]:
    """Yield the records in `content`, which is that of `path`, uncompressed."""
    start = content.read(_START_BYTES)
    content.seek(0)
    is_list = start.lstrip(_BLANK_BYTES).startswith(b"[")
    if is_list or path.suffix.lower() in TABLE_ENDINGS:
        for record, _ in read_records(SourceFile(path, path.name)):
            yield record
        return
    yield from interactions_of(_json_lines(content, problems), where=str(path))


def _json_lines(content: BinaryIO, problems: Counter[str]) -> Iterator[Record]:
    """Yield the JSON objects in `content`, one of each line."""
    while line := content.readline(MAX_RECORD_BYTES + 1):
        if len(line) > MAX_RECORD_BYTES:
            problems[TOO_LONG] += 1
            while line and not line.endswith(b"\n"):
                line = content.readline(MAX_RECORD_BYTES)
            continue
        text = line.strip(_BLANK_BYTES)
        if not text:
            continue
        try:
            # NaN and Infinity, which JSON doesn't have, are read as null.
            record = json.loads(text, parse_constant=lambda _name: None)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):  # without a line end, it is still being written
                problems[NOT_JSON] += 1
            continue
        if isinstance(record, dict):
            yield record
        else:
            problems[NOT_OBJECT] += 1
