"""Opening files of a run directory, which may have come from anywhere: an artifact, a branch, another machine."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Raise what the disk refuses (no rights, read-only, full) as RunDirectoryError with `path`."""
    try:
        yield
    except OSError as error:
        raise RunDirectoryError(
            f"can't be written: {error.strerror or error}.",
            where=str(path),
            mend="Make room and rights there, or choose another place with --out.",
        ) from None


def open_regular(path: Path) -> BinaryIO:
    """`path` opened for reading. Raises OSError, also for a pipe or a device, which could keep a reader for ever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def open_new(path: Path) -> BinaryIO:
    """`path` as a new, empty file. What stood there is removed, not written through: it may be a link to elsewhere."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def replace_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step, so that no reader sees half of it, and a link there is replaced.

    Raises RunDirectoryError when that can't be done.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with writing_to(path):
        with open_new(temporary) as stream:
            stream.write(text.encode("utf-8"))
        temporary.replace(path)
