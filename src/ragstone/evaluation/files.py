"""Writes files to a run directory, which may contain links and pipes, because it can
come from anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors


def writing_to(path: Path) -> AbstractContextManager[None]:
    """Raise disk errors (no permission, read-only, full) as RunDirectoryError with
    `path`."""
    return disk_errors(
        path,
        "can't be written",
        kind=RunDirectoryError,
        hint="Check free space and permissions, or use another directory with --out.",
    )


def open_new(path: Path) -> BinaryIO:
    """`path` as a new, empty file. An existing file is removed, not written through: it
    may be a link."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def replace_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, replacing a link there.

    Raises RunDirectoryError if that fails.
    """
    replace_texts(path, (text,))


def replace_texts(path: Path, texts: Iterable[str]) -> None:
    """Write `texts` to `path` atomically, one after the other, replacing a link there.
    Raises RunDirectoryError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing_to(path):
        with open_new(temporary) as stream:
            for text in texts:
                stream.write(text.encode("utf-8"))
        temporary.replace(path)
