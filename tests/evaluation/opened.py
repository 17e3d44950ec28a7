"""Which files are opened, by the interpreter's own account."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_open: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or _open is None:
        return
    path, _, flags = arguments
    reads = isinstance(flags, int) and not flags & (os.O_WRONLY | os.O_RDWR)
    if reads and isinstance(path, str | bytes | os.PathLike):
        _open.append(os.fsdecode(path))


@contextmanager
def opened_for_reading(*names: str) -> Iterator[list[str]]:
    """The paths of the files called one of `names` that are opened for reading within the block."""
    global _open
    if not _installed:
        sys.addaudithook(_note)  # which can't be taken back, so it is installed once
        _installed.append(True)
    found: list[str] = []
    seen: list[str] = []
    _open = seen
    try:
        yield found
    finally:
        _open = None
        found += [path for path in seen if Path(path).name in names]


_installed: list[bool] = []
