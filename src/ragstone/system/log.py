"""Output of user code: stored in a file up to a limit, with the last few thousand characters in memory."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

MAX_LOG_BYTES = 10_000_000
TAIL_BYTES = 4_000
_CUT = b"\n[ragstone] the log has reached its limit; the rest is left out\n"


class SystemLog:
    """The log file shared by all children of one system. `path` None keeps nothing on disk.

    Never raises for a full or read-only disk, because an unwritable log must not fail a run.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._written = 0

    def write(self, data: bytes) -> None:
        if self._path is None or self._written >= MAX_LOG_BYTES:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab", buffering=0)
                self._written = self._file.tell()
            room = max(0, MAX_LOG_BYTES - self._written)
            self._file.write(data[:room] + (_CUT if len(data) > room else b""))
            self._written += len(data)
        except OSError:
            self._path = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Tail:
    """The last bytes that one child wrote. Call `clear` for each new question."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def clear(self) -> None:
        self._data = b""

    def text(self) -> str | None:
        """The tail as text, None if nothing was written."""
        return self._data.decode("utf-8", "replace").strip() or None
