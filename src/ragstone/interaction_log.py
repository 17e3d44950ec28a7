"""Logs the interactions of an application as JSON Lines, for `ragstone monitor`. It needs
only the standard library.

Each line is appended by one system call, to a file that is opened for this line only.
So threads and processes never mix their lines, there is no state that a fork could
copy, a log can be rotated at any time, and a crash of the application loses at most the
line that is being written.
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
"""Larger records can't be read by `ragstone monitor`."""

_MAX_DEPTH = 20
"""Values that are nested more deeply are logged as text."""

_TEXT_ATTRIBUTES = ("text", "page_content", "content")
_has_warned = False


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
    or `page_content`; a single one is also accepted. An empty list means that nothing
    was found, None that it is not known. `error` says why there is no answer.
    `feedback` is the user's: True or False, or a number, of which those above 0 are
    good. If it comes later, log it with the same `id`, without query and answer.
    `timestamp` is a datetime, its ISO form, or seconds since 1970 (default: now).
    `more` is logged as further fields. The log is `path`, else the file in the
    environment variable RAGSTONE_LOG, else ``ragstone-interactions.jsonl``. Only its
    owner can read it.

    Returns the id of the interaction, by default a random one; "" if it could not be
    written. The reason is written to standard error the first time.
    """
    try:
        interaction_id = os.urandom(12).hex() if id is None else str(id)
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
        record: dict[str, object] = {
            "id": interaction_id,
            "timestamp": _iso_time(timestamp),
        }
        for name, value in fields.items():
            if value is not None:
                record[name] = _plain(value)
        text = json.dumps(record, allow_nan=False, separators=(",", ":"))
        line = f"{text}\n".encode("ascii")
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"the interaction is larger than {MAX_LINE_BYTES:,} bytes")
        _append(os.fspath(path or os.environ.get(VARIABLE) or DEFAULT_FILE), line)
    except Exception as problem:
        _warn_once(problem)
        return ""
    return interaction_id


def _append(path: str, line: bytes) -> None:
    """Append a line to the file `path`, which is created if it doesn't exist."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    # A pipe must not block the application.
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    file = os.open(path, flags, 0o600)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("the log is not a regular file")
        if status.st_size:
            os.lseek(file, -1, os.SEEK_END)
            # After a crash or on a full disk, the last line may have no end.
            is_cut_short = os.read(file, 1) != b"\n"
            if is_cut_short:
                line = b"\n" + line
        written = os.write(file, line)
        while written < len(line):
            line = line[written:]
            written = os.write(file, line)
    finally:
        os.close(file)


def _iso_time(timestamp: datetime | str | float | None) -> str:
    """The time in ISO form, with a time zone."""
    match timestamp:
        case None:
            time = datetime.now(UTC)
        case str():
            time = datetime.fromisoformat(timestamp)
        case datetime():
            time = timestamp
        case _:
            time = datetime.fromtimestamp(timestamp, UTC)
    if time.tzinfo is None:
        time = time.astimezone()
    return time.isoformat(timespec="milliseconds")


def _sources(sources: object) -> list[object]:
    """A list of sources, also for a single one."""
    # The documents of some frameworks are iterable too: over their fields.
    is_one = isinstance(sources, str | bytes | Mapping) or _text_of(sources) is not None
    if is_one or not isinstance(sources, Iterable):
        return [_source(sources)]
    return list(map(_source, sources))


def _source(source: object) -> object:
    """A source as a text or a mapping."""
    if isinstance(source, str | Mapping):
        return source
    text = _text_of(source)
    if text is None:
        return _text(source)
    metadata = getattr(source, "metadata", None)
    if isinstance(metadata, Mapping):
        return {"text": text, "metadata": metadata}
    return {"text": text}


def _text_of(document: object) -> str | None:
    """The text of a framework's document; None for anything else."""
    for name in _TEXT_ATTRIBUTES:
        text = getattr(document, name, None)
        if isinstance(text, str):
            return text
    return None


def _plain(value: object, depth: int = 0) -> object:
    """`value` in the types of JSON. NaN and infinity become null, everything else that
    JSON doesn't know becomes text."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | str() | int():
            return value
        case Mapping() if depth < _MAX_DEPTH:
            return {_text(key): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth < _MAX_DEPTH:
            return [_plain(item, depth + 1) for item in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    """`value` as text; an exception with its type."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return str(value)


def _warn_once(problem: Exception) -> None:
    """Write to standard error why an interaction was not logged, the first time."""
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    with suppress(Exception):  # standard error may be closed
        sys.stderr.write(
            f"ragstone: an interaction was not logged ({type(problem).__name__}: {problem}).\n"
        )
