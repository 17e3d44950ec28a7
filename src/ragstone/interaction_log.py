"""Logs the interactions of an application as JSON Lines, for `ragstone monitor`.
Standard library only.

Each line is appended by one system call to a file that is opened for this line only. So
threads, processes and forks of them never mix their lines, there is no state that a
fork could copy, a log that is rotated is followed at once, and a crash of the
application loses at most the line that it was writing.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

VARIABLE = "RAGSTONE_LOG"
DEFAULT_FILE = "ragstone-interactions.jsonl"
MAX_LINE_BYTES = 10_000_000
"""As large as a record may be that is read."""

_DEEPEST = 20
_TEXTS = ("text", "page_content", "content")
_told = False


def log_interaction(
    query: str = "",
    answer: str = "",
    *,
    sources: object = None,
    latency_ms: float | None = None,
    user_id: object = None,
    session_id: object = None,
    error: object = None,
    feedback: object = None,
    id: object = None,
    timestamp: datetime | str | float | None = None,
    path: str | os.PathLike[str] | None = None,
    **more: object,
) -> str:
    """Append an interaction to a log, as one line of JSON. Never raises an Exception.

    `sources` are what was retrieved, in order: texts, mappings, or objects with `text`
    or `page_content`, or one of these; an empty list says that nothing was found, None
    that it is not known. `latency_ms` is in milliseconds. `error` is what went wrong
    instead of an answer. `feedback` is what the user said: True or False, or a number
    (above 0 is good); if it comes later, log it with the same `id`, without query and
    answer. `timestamp` is a datetime, its ISO form, or seconds since 1970 (default:
    now). `more` is kept as it is. The log is `path`, else the file in the environment
    variable RAGSTONE_LOG, else ``ragstone-interactions.jsonl``.

    Returns the id of the interaction, a random one if none is given; "" if it could not
    be written. The first time that it can't, the reason is written to standard error. A
    log is readable for its owner only.
    """
    try:
        number = os.urandom(12).hex() if id is None else str(id)
        fields = {
            "query": query or None,
            "answer": answer or None,
            "sources": None if sources is None else _sources(sources),
            "latency_ms": latency_ms,
            "user_id": user_id,
            "session_id": session_id,
            "error": None if error is None else _text(error),
            "feedback": feedback,
            **more,
        }
        record: dict[str, object] = {"id": number, "timestamp": _time(timestamp)}
        record |= {
            name: _plain(value) for name, value in fields.items() if value is not None
        }
        line = (
            json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii")
            + b"\n"
        )
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"the interaction is larger than {MAX_LINE_BYTES:,} bytes")
        _append(os.fspath(path or os.environ.get(VARIABLE) or DEFAULT_FILE), line)
    except Exception as problem:
        _tell_once(problem)
        return ""
    return number


def _append(path: str, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    for name in (
        "O_CLOEXEC",
        "O_NONBLOCK",
        "O_NOCTTY",
        "O_BINARY",
    ):  # a pipe must not block the application
        flags |= getattr(os, name, 0)
    file = os.open(path, flags, 0o600)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("the log is not a regular file")
        if status.st_size:
            os.lseek(file, -1, os.SEEK_END)
            if (
                os.read(file, 1) != b"\n"
            ):  # a line that a crash or a full disk has cut short
                line = b"\n" + line
        written = os.write(file, line)
        while written < len(line):
            line = line[written:]
            written = os.write(file, line)
    finally:
        os.close(file)


def _time(timestamp: datetime | str | float | None) -> str:
    if isinstance(timestamp, str):
        timestamp = datetime.fromisoformat(timestamp)
    if isinstance(timestamp, datetime):
        moment = timestamp if timestamp.tzinfo is not None else timestamp.astimezone()
    else:
        moment = (
            datetime.now(UTC)
            if timestamp is None
            else datetime.fromtimestamp(timestamp, UTC)
        )
    return moment.isoformat(timespec="milliseconds")


def _sources(sources: object) -> list[object]:
    # One source without a list. Documents of a framework can be iterable: over their
    # fields.
    single = isinstance(sources, str | bytes | Mapping) or any(
        isinstance(getattr(sources, name, None), str) for name in _TEXTS
    )
    return (
        [_source(sources)]
        if single or not isinstance(sources, Iterable)
        else [_source(name) for name in sources]
    )


def _source(source: object) -> object:
    if isinstance(source, str | Mapping):
        return source
    for name in _TEXTS:
        text = getattr(source, name, None)
        if isinstance(text, str):
            metadata = getattr(source, "metadata", None)
            return (
                {"text": text, "metadata": metadata}
                if isinstance(metadata, Mapping)
                else {"text": text}
            )
    return _text(source)


def _plain(value: object, depth: int = 0) -> object:
    """`value` as JSON takes it: what it can't hold as text, and numbers that are none
    as nothing."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {_text(key): _plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_plain(item, depth + 1) for item in value]
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return (
        f"{type(value).__name__}: {value}"
        if isinstance(value, BaseException)
        else str(value)
    )


def _tell_once(problem: Exception) -> None:
    global _told
    if _told:
        return
    _told = True
    with suppress(Exception):  # there is nobody left to tell
        sys.stderr.write(
            f"ragstone: an interaction was not logged ({type(problem).__name__}: {problem}).\n"
        )
