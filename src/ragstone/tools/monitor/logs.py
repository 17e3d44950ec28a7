"""Reads logs: JSON Lines, also compressed, JSON lists, CSV, TSV, Parquet, and traces.

A line of a log that can't be used is counted, and never ends the reading. What is damaged is read as far as it goes.
"""

from __future__ import annotations

import glob
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragstone.errors import ConfigError, GoldenSetError, SystemUnderTestError
from ragstone.files import open_regular
from ragstone.golden.rows import SourceFile
from ragstone.system.json_records import MAX_RECORD_BYTES, TABLES, records
from ragstone.system.recorded import open_records
from ragstone.tools.monitor.traces import interactions_of, is_trace

NOT_JSON = "without valid JSON"
NOT_OBJECT = "without a JSON object"
TOO_LONG = f"longer than {MAX_RECORD_BYTES:,} bytes"

_GZIP = b"\x1f\x8b"
_START_BYTES = 1024
_BLANK = b"\xef\xbb\xbf \t\r\n"

Record = Mapping[str, Any]


@dataclass(slots=True)
class LogRead:
    """What was read of a log: interactions in the window and outside it, lines by what is wrong with them, and what
    stopped the reading."""

    name: str
    inside: int = 0
    outside: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    damage: str | None = None


def log_files(paths: Sequence[str]) -> list[Path]:
    """The files that `paths` and globs name, each once. Raises ConfigError if one isn't there."""
    files: dict[Path, None] = {}
    for path in paths:
        matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]  # noqa: PTH207
        if not matches or not Path(matches[0]).exists():
            raise ConfigError(
                "log not found.", where=path, hint="Check the path, or use a glob such as 'logs/*.jsonl*'."
            )
        files |= dict.fromkeys(map(Path, matches))
    return list(files)


def read_log(path: Path, read: LogRead) -> Iterator[Record]:
    """The records in `path`. `read` counts the lines that are none, and has what stopped the reading.

    Raises ConfigError if the file can't be opened.
    """
    try:
        with closing(open_regular(path)) as raw:
            packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            # Without closing it: the file below it is.
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            yield from _records(path, file, read)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        read.damage = f"is cut short or damaged ({type(error).__name__})"
    except (SystemUnderTestError, GoldenSetError) as error:
        read.damage = f"can't be read further: {error.message}"
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror or error}.", where=str(path)) from None


def _records(path: Path, file: BinaryIO, read: LogRead) -> Iterator[Record]:
    if path.suffix.lower() in TABLES:
        rewritten, rows = open_records(SourceFile(path, path.name))
        with rewritten:
            yield from (record for record, *_ in rows)
        return
    is_list = file.read(_START_BYTES).lstrip(_BLANK).startswith(b"[")
    file.seek(0)
    lines = (record for record, *_ in records(file, path.name)) if is_list else _lines(file, read)
    first = next(lines, None)
    if first is None:
        return
    every = chain([first], lines)
    yield from interactions_of(every, str(path)) if is_trace(first) else every


def _lines(file: BinaryIO, read: LogRead) -> Iterator[Record]:
    while line := file.readline(MAX_RECORD_BYTES + 1):
        if len(line) > MAX_RECORD_BYTES:
            read.problems[TOO_LONG] += 1
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_RECORD_BYTES)
            continue
        try:  # NaN and infinity are no values
            record = json.loads(line.strip(_BLANK) or b"0", parse_constant=lambda _name: None)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):  # without a line end, it is still being written
                read.problems[NOT_JSON] += 1
            continue
        if isinstance(record, dict):
            yield record
        elif line.strip(_BLANK):
            read.problems[NOT_OBJECT] += 1
