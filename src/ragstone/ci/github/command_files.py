"""The files that GitHub's runner reads after a step: never written through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

COMMAND_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def append(path: Path, data: bytes) -> None:
    """Append `data` to the regular file `path`, which is created if it doesn't exist.

    Raises OSError, also for a link, a pipe or a file with several names, which could lead elsewhere or block.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        _refuse_irregular(os.fstat(descriptor), path)
        file.write(data)


def size(path: Path) -> int:
    """Size of `path` in bytes, 0 if it doesn't exist. Raises OSError like `append`."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    _refuse_irregular(found, path)
    return found.st_size


def _refuse_irregular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise OSError(0, "it is not a regular file", str(path))
