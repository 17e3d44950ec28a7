"""The lock on a run directory: one run at a time writes to it.

The kernel holds it (flock), and releases it when the process ends, however it ends. So
a process that died or a machine that went down can't leave a lock behind, process ids
of other containers are never looked up, and containers that share a volume see each
other's locks.
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
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.writer import refuse_foreign


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Lock the run directory `path`, which is created if needed.

    Raises RunDirectoryError if another
    run is writing there, if the directory contains something other than a run, or if
    the file system is not writable or has no locks. Leaves no file behind, and no
    unused directory. On Windows nothing is locked.
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
    """The open and locked file. Raises RunDirectoryError if the lock is held, OSError
    for disk errors."""
    flags = os.O_RDWR | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path / LOCK, flags, 0o644)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"{LOCK} in it is not a regular file")
        _lock(descriptor, path)
        if not os.path.samestat(status, (path / LOCK).stat()):
            raise _busy(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _busy(path: Path) -> RunDirectoryError:
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
            raise _busy(path) from None
        raise RunDirectoryError(
            f"its file system does not support locks ({error.strerror}), so two runs there could interfere.",
            where=str(path),
            hint="Use a directory on a local disk with --out.",
        ) from None
