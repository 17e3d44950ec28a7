"""The lock on a run directory, so that only one run at a time writes to it.

The kernel holds the lock (flock), and releases it when the process ends in any way. So
a process that died or a machine that went down leaves no lock behind. No process ids
are looked up, so the lock also works between containers that share a volume.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import LOCK
from ragstone.evaluation.run_files import writing_to
from ragstone.evaluation.writer import refuse_foreign


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Lock the run directory `path`, which is created if needed.

    Raises RunDirectoryError if another run is writing there, if the directory contains
    something other than a run, or if the file system is read-only or has no locks.
    Leaves no lock file behind, and no empty directory. On Windows nothing is locked.
    """
    refuse_foreign(path)
    is_new = not path.exists()
    with writing_to(path):
        descriptor = _lock_file(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (path / LOCK).unlink()
        os.close(descriptor)
        if is_new:
            with contextlib.suppress(OSError):
                path.rmdir()


def _lock_file(path: Path) -> int:
    """Open and lock the lock file, and return its descriptor. Raises RunDirectoryError
    if another run holds the lock, and OSError for disk errors."""
    flags = os.O_RDWR | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path / LOCK, flags, 0o644)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"its {LOCK} is not a regular file")
        _lock(descriptor, path)
        # The run that held the lock before may have removed the file meanwhile.
        if not os.path.samestat(status, (path / LOCK).stat()):
            raise _busy_error(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _busy_error(path: Path) -> RunDirectoryError:
    return RunDirectoryError(
        "another run is writing to this directory.",
        where=str(path),
        hint="Wait until it ends, or use another directory with --out.",
    )


def _lock(descriptor: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            raise _busy_error(path) from None
        raise RunDirectoryError(
            f"its file system does not support locks ({error.strerror}), so two runs could write to it at once.",
            where=str(path),
            hint="Use a directory on a local disk with --out.",
        ) from None
