"""Reads logs: JSON Lines, also compressed, JSON lists, CSV, TSV, Parquet and traces.

A line of a log that can't be used is counted, and never ends the reading. What is
damaged is read as far as it goes.
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
from ragstone.system.json_records import MAX_RECORD_BYTES, TABLES, read_records
from ragstone.tools.monitor.traces import interactions_of

NOT_JSON = "lines without valid JSON"
NOT_OBJECT = "lines without a JSON object"
TOO_LONG = f"lines longer than {MAX_RECORD_BYTES:,} bytes"

_GZIP = b"\x1f\x8b"
_START_BYTES = 1024
_BLANK = b"\xef\xbb\xbf \t\r\n"

Record = Mapping[str, Any]


def log_files(paths: Sequence[str]) -> list[Path]:
    """The files that `paths` and globs name, each once. Raises ConfigError if one isn't
    there."""
    files: dict[Path, None] = {}
    for path in paths:
        matches = [path]
        if not Path(path).exists():
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
        if not matches:
            hint = "Check the path, or use a glob such as 'logs/*.jsonl*'."
            raise ConfigError("log not found.", where=path, hint=hint)
        files |= dict.fromkeys(map(Path, matches))
    return list(files)


def read_log(path: Path, problems: Counter[str]) -> Iterator[Record]:
    """The records in `path`. `problems` counts the lines that are none, and says what
    stopped the reading.

    Raises ConfigError if the file can't be opened.
    """
    try:
        with closing(open_regular(path)) as raw:
            signature = raw.read(len(_GZIP))
            packed = signature == _GZIP
            raw.seek(0)
            # Without closing it: the file below it is.
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            yield from _records(path, file, problems)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        kind = type(error).__name__
        problems[f"{path} is cut short or damaged ({kind})"] += 1
    except (SystemUnderTestError, GoldenSetError) as error:
        problems[f"{path} can't be read further: {error.message}"] += 1
    except OSError as error:
        raise ConfigError(
            f"can't be read: {error.strerror or error}.", where=str(path)
        ) from None


def _records(path: Path, file: BinaryIO, problems: Counter[str]) -> Iterator[Record]:
    start = file.read(_START_BYTES)
    is_list = start.lstrip(_BLANK).startswith(b"[")
    file.seek(0)
    if is_list or path.suffix.lower() in TABLES:
        for record, _ in read_records(SourceFile(path, path.name)):
            yield record
        return
    yield from interactions_of(_lines(file, problems), str(path))


def _lines(file: BinaryIO, problems: Counter[str]) -> Iterator[Record]:
    while line := file.readline(MAX_RECORD_BYTES + 1):
        if len(line) > MAX_RECORD_BYTES:
            problems[TOO_LONG] += 1
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_RECORD_BYTES)
            continue
        text = line.strip(_BLANK)
        try:  # NaN and infinity are no values
            record = json.loads(text or b"0", parse_constant=lambda _name: None)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):  # without a line end, it is still being written
                problems[NOT_JSON] += 1
            continue
        if isinstance(record, dict):
            yield record
        elif text:
            problems[NOT_OBJECT] += 1
