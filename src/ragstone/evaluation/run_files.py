"""Writes files to a run directory. It may come from anywhere, and contain links and
pipes, which must not be written through."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors


def writing_to(path: Path) -> AbstractContextManager[None]:
    """Turn disk errors in the block (no permission, read-only, full) into
    RunDirectoryError with `path`."""
    return disk_errors(
        path,
        "can't be written",
        kind=RunDirectoryError,
        hint="Check free space and permissions, or use another directory with --out.",
    )


def open_new(path: Path) -> BinaryIO:
    """Open `path` as a new, empty file, after removing what is there: it may be a
    link."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def replace_text(path: Path, text: str) -> None:
    """Replace the file or link `path` by one with `text`, atomically.

    Raises RunDirectoryError if that fails.
    """
    replace_texts(path, (text,))


def replace_texts(path: Path, texts: Iterable[str]) -> None:
    """Replace the file or link `path` by one with `texts`, one after the other,
    atomically. Raises RunDirectoryError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing_to(path):
        with open_new(temporary) as stream:
            for text in texts:
                stream.write(text.encode("utf-8"))
        temporary.replace(path)
