"""Writing files of a run directory, in which links and pipes may lie: it may have come from anywhere."""

from __future__ import annotations

import contextlib
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
            hint="Make room and rights there, or choose another place with --out.",
        ) from None


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
